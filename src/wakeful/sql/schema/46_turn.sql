-- A worker's turn and its pulse: claim_1 together with what else is to be said, in one call and one commit.
-- Promise: as in complete_1, claim_1 and beat_1. A turn that fails has settled and claimed nothing; the client repeats it
--   as settle and claim apart.
-- Locks: those of its parts, in their order: settled rows, the worker's row, taken rows.

-- Settles what was completed and claims anew.
create function wakeful.turn_1(
    worker_id uuid, done_ids uuid[], done_epochs bigint[], done_results text[],
    queues text[], lanes integer[], limits integer[], tasks text[],
    h_ranks smallint[] default null, h_ready_ats timestamptz[] default null, h_ids uuid[] default null,
    tend boolean default false, sleeps text default null, pass_on boolean default false)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    stale constant uuid[] := array(
        select r.id from wakeful.complete_1(worker_id, done_ids, done_epochs, done_results) r where r.refused = 'stale');
    report wakeful.claimed_job;
begin
    return query select * from wakeful.claim_1(worker_id, queues, lanes, limits, tasks, null, h_ranks, h_ready_ats, h_ids,
        tend, sleeps, pass_on);
    if stale <> '{}' then
        report.refused := stale;
        return next report;
    end if;
end
$$;

-- Beats, sends the canary, tends, claims from the start of the line, and tells of cancellations. `canary` is a number
-- that the worker expects to hear; null sends none. every_lane is the lane that also serves queues not named, in which
-- jobs of these tasks wait. Raises WF006 when the worker's lease has lapsed.
create function wakeful.pulse_1(
    worker_id uuid, lease interval, canary bigint,
    queues text[], lanes integer[], limits integer[], tasks text[], every_lane integer default null, sleeps text default null)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_variable
declare
    report wakeful.claimed_job;
    found_queues text[];
begin
    if not wakeful.beat_1(worker_id, lease) then
        perform wakeful.hold_worker(worker_id);
    end if;
    if canary is not null then
        perform pg_notify(wakeful.channel_of(worker_id), json_build_object('canary', canary)::text);
    end if;
    if every_lane is not null then
        found_queues := array(
            select distinct p.queue from wakeful.waiting_pairs() p where p.task = any (tasks) and p.queue <> all (queues));
        queues := queues || found_queues;
        lanes := lanes || array_fill(every_lane, array[cardinality(found_queues)]);
    end if;
    return query select * from wakeful.claim_1(worker_id, queues, lanes, limits, tasks, sleeps => sleeps);
    report.cancelled := array(
        select j.id from wakeful.job j
        where j.state = 2 and j.worker_id = pulse_1.worker_id and j.cancel_requested_at is not null);
    return next report;
end
$$;

-- The daily round: days of history made and dropped (keep: null keeps all), counts folded.
create function wakeful.upkeep_1(keep interval) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform wakeful.make_days();
    perform wakeful.drop_days(upkeep_1.keep) where upkeep_1.keep is not null;
    perform wakeful.fold_tally();
end
$$;

-- What a handler notes on its running job, through the fence: progress, a checkpoint for the next attempt, counters that
-- are added up. Null leaves the part as it is. Returns false when the fence refuses.
create function wakeful.note_1(
    worker_id uuid, id uuid, epoch bigint, progress jsonb default null, saved jsonb default null, counters jsonb default null)
    returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    update wakeful.job j
    set progress = coalesce(note_1.progress, j.progress),
        saved = coalesce(note_1.saved, j.saved),
        counters = case when note_1.counters is null then j.counters else wakeful.added_up(j.counters, note_1.counters) end,
        updated_at = wakeful.now()
    where j.id = note_1.id and j.epoch = note_1.epoch and j.worker_id = note_1.worker_id and j.state + 0 = 2;
    return found;
end
$$;
