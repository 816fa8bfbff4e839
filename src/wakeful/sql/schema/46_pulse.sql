-- A worker's pulse, its upkeep, and what its handlers note.
-- Promise: as in claim_1 and beat_1; a note goes through the fence like a settlement.
-- Locks: the worker's row, then those of claim_1; upkeep see make_days and drop_days; note the job's row.

-- Beats, sends the canary, tends, claims from the start of the line, and tells of cancellations. `canary` is a number
-- that the worker expects to hear; null sends none. every_lane is the lane that also serves queues not named, in which
-- jobs of these tasks wait. Raises WF006 when the worker's lease has lapsed.
create function wakeful.pulse_1(
    worker_id uuid, lease interval, canary bigint,
    queues text[], lanes integer[], limits integer[], tasks text[], every_lane integer default null, sleeps text default null,
    free integer[] default null, takes text default null)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
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
    -- Who has no slot free pokes those who have: it may have been poked in their place.
    return query select * from wakeful.claim_1(
        worker_id, queues, lanes, limits, tasks, sleeps => sleeps, pass_on => 0 >= all (limits), free => free, takes => takes);
    report.cancelled := array(
        select j.id from wakeful.job j
        where j.state = 2 and j.worker_id = pulse_1.worker_id and j.cancel_requested_at is not null);
    -- Told under any load: a worker that is never short of jobs would not hear of them otherwise.
    report.suspects := wakeful.suspects_wait(wakeful.open_names('queue', queues), wakeful.open_names('task', tasks));
    return next report;
end
$$;

-- The daily round: days of history made and dropped (keep: null keeps all), counts folded.
create function wakeful.upkeep_1(keep interval) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    perform wakeful.fold_tally();
    perform wakeful.fold_metrics();
    perform wakeful.roll_metrics();
    perform wakeful.make_days();
    -- Last: until the commit nobody can settle what it holds.
    perform wakeful.drop_days(upkeep_1.keep) where upkeep_1.keep is not null;
end
$$;

-- What a handler notes on its running job, through the fence: progress, a checkpoint for the next attempt, counters that
-- are added up. Null leaves the part as it is. Returns false when the fence refuses.
create function wakeful.note_1(
    worker_id uuid, id uuid, epoch bigint, progress jsonb default null, saved jsonb default null, counters jsonb default null)
    returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
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
