-- The end of an attempt, and of a job: the moves that settle, rescue, cancel and expire share.
-- Promise: each takes rows that its caller has locked; a row leaves `job` in the statement that writes it elsewhere,
--   and a rerun that was asked for while it ran becomes the next job in the same transaction.
-- Locks: none of its own.

-- How one attempt ended. retry_in: the wait before the next start, null for no further start. charged: whether this
-- start counts.
create type wakeful.ended_attempt as (
    id uuid, outcome text, code text, message text, details jsonb, retry_in interval, charged boolean
);

-- The job's history with the attempt that is ending; unchanged for a job that is not running.
create function wakeful.history_of(job wakeful.job, ended wakeful.ended_attempt, at timestamptz) returns jsonb
    language sql stable
    return case when (job).state = 2 then wakeful.with_attempt((job).attempts, jsonb_strip_nulls(jsonb_build_object(
        'attempt', (job).attempt, 'epoch', (job).epoch, 'worker_id', (job).worker_id, 'started_at', (job).started_at,
        'ended_at', at, 'outcome', (ended).outcome, 'code', (ended).code, 'message', (ended).message))
        -- Apart: what is null inside the details was told, and stays.
        || case when (ended).details is null then '{}' else jsonb_build_object('details', (ended).details) end)
        else (job).attempts end;

-- Ends the running attempt of locked rows: each is started again when and if it may be, cancelled if that was asked for
-- meanwhile, and dead otherwise.
create function wakeful.end_attempts(ends wakeful.ended_attempt[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    ids constant uuid[] := array(select e.id from unnest(ends) e);
    slots constant wakeful.slot[] := wakeful.slots_of(ids);
    again record;
begin
    -- Those that wait again; the others are measured where they go. Before they move: ready_at is about to change.
    perform wakeful.measure(array(
        select row(j.task, j.tenant, e.outcome, j.started_at, j.ready_at, null)::wakeful.measured_run
        from unnest(ends) e join wakeful.job j on j.id = e.id
        where j.id = any (ids) and j.state + 0 = 2 and j.cancel_requested_at is null
          and e.retry_in is not null and (not e.charged or j.attempt < j.max_attempts)), at);
    for again in
        with waiting as (
            update wakeful.job j
            set state = case when e.retry_in > interval '0' then 0 else 1 end,
                run_at = at + e.retry_in,
                ready_at = case when e.retry_in > interval '0' then null else at end,
                attempt = case when e.charged then j.attempt else j.attempt - 1 end,
                attempts = wakeful.history_of(j, e, at),
                worker_id = null, lease_expires_at = null, limit_key = null, queue_slot = false, updated_at = at
            from unnest(ends) e
            where j.id = any (ids) and j.id = e.id and j.state + 0 = 2 and j.cancel_requested_at is null
              and e.retry_in is not null and (not e.charged or j.attempt < j.max_attempts)
            returning j.queue, j.task, j.run_at, j.rank, j.ready_at, j.id
        )
        select distinct on (w.queue, w.task) w.* from waiting w
        order by w.queue, w.task, (w.ready_at is null), w.rank, w.run_at, w.id
    loop
        perform wakeful.poke(again.queue, again.task, again.run_at, again.rank, again.ready_at, again.id);
    end loop;
    perform wakeful.retire_cancelled(array(
        select e from unnest(ends) e join wakeful.job j on j.id = e.id
        where j.id = any (ids) and j.state + 0 = 2 and j.cancel_requested_at is not null), at);
    perform wakeful.retire_dead(array(
        select e from unnest(ends) e join wakeful.job j on j.id = e.id where j.id = any (ids) and j.state + 0 = 2), at);
    if slots <> '{}' then
        perform wakeful.free_slots(slots);
    end if;
end
$$;

-- The slots that running jobs among these have.
create function wakeful.slots_of(ids uuid[]) returns wakeful.slot[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    if not exists (select from wakeful.task_policy) and not exists (select from wakeful.queue_policy) then
        return '{}';
    end if;
    return array(
        select row(j.queue, j.task, j.limit_key)::wakeful.slot from wakeful.job j
        where j.id = any (ids) and j.state + 0 = 2 and j.limit_key is not null);
end
$$;

-- Moves locked rows to history as cancelled; returns how many.
create function wakeful.retire_cancelled(ends wakeful.ended_attempt[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    ids constant uuid[] := array(select e.id from unnest(ends) e);
    retired integer;
    reruns jsonb[];
    ran wakeful.measured_run[];
    slots wakeful.slot[];
begin
    if coalesce(cardinality(ends), 0) = 0 then
        return 0;
    end if;
    with gone as (
        delete from wakeful.job j using unnest(ends) e where j.id = any (ids) and j.id = e.id returning j as job, e as ended
    ), kept as (
        insert into wakeful.finished_job (
            id, queue, task, state, rank, attempt, max_attempts, epoch, run_at, ready_at, started_at, finished_at, expires_at,
            created_at, worker_id, correlation_id, parent_id, origin_id, dedup_key, tenant, created_by, cancel_reason,
            payload, metadata, attempts, progress, counters)
        select (g.job).id, (g.job).queue, (g.job).task, 5, (g.job).rank, (g.job).attempt, (g.job).max_attempts,
            (g.job).epoch, (g.job).run_at, (g.job).ready_at, (g.job).started_at, at, (g.job).expires_at, (g.job).created_at,
            (g.job).worker_id, (g.job).correlation_id, (g.job).parent_id, (g.job).origin_id, (g.job).dedup_key,
            (g.job).tenant, (g.job).created_by, coalesce((g.job).cancel_reason, (g.ended).message), (g.job).payload,
            (g.job).metadata, wakeful.history_of(g.job, g.ended, at), (g.job).progress, (g.job).counters
        from gone g
    ), counted as (
        insert into wakeful.tally_delta (day, task, state, jobs)
        select wakeful.day_of(at), (g.job).task, 5, count(*) from gone g group by (g.job).task
    )
    select count(*), array_agg((g.job).rerun) filter (where (g.job).rerun is not null),
        array_agg(row((g.job).task, (g.job).tenant, 'cancelled', (g.job).started_at, (g.job).ready_at, (g.job).counters)
            ::wakeful.measured_run) filter (where (g.job).state = 2),
        array_agg(row((g.job).queue, (g.job).task, (g.job).limit_key)::wakeful.slot)
            filter (where (g.job).state = 2 and (g.job).limit_key is not null)
    into retired, reruns, ran, slots from gone g;
    perform wakeful.measure(ran, at) where ran is not null;
    perform wakeful.start_reruns(reruns);
    if slots is not null then
        perform wakeful.free_slots(slots);
    end if;
    return retired;
end
$$;

-- Moves locked rows to the dead letters; returns how many.
create function wakeful.retire_dead(ends wakeful.ended_attempt[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    ids constant uuid[] := array(select e.id from unnest(ends) e);
    retired integer;
    reruns jsonb[];
    ran wakeful.measured_run[];
begin
    if coalesce(cardinality(ends), 0) = 0 then
        return 0;
    end if;
    with gone as (
        delete from wakeful.job j using unnest(ends) e where j.id = any (ids) and j.id = e.id returning j as job, e as ended
    ), kept as (
        insert into wakeful.dead_letter (
            id, task, queue, tenant, correlation_id, error_code, error_message, error_details, died_at, original_job)
        select (g.job).id, (g.job).task, (g.job).queue, (g.job).tenant, (g.job).correlation_id,
            coalesce((g.ended).code, 'unknown'), coalesce((g.ended).message, ''), (g.ended).details, at,
            to_jsonb(g.job) - 'pokes' - 'rerun' || jsonb_build_object('attempts', wakeful.history_of(g.job, g.ended, at))
        from gone g
    ), counted as (
        insert into wakeful.tally_delta (day, task, state, jobs)
        select wakeful.day_of(at), (g.job).task, 4, count(*) from gone g group by (g.job).task
    )
    select count(*), array_agg((g.job).rerun) filter (where (g.job).rerun is not null),
        array_agg(row((g.job).task, (g.job).tenant, 'dead', (g.job).started_at, (g.job).ready_at, (g.job).counters)
            ::wakeful.measured_run) filter (where (g.job).state = 2)
    into retired, reruns, ran from gone g;
    perform wakeful.measure(ran, at) where ran is not null;
    perform wakeful.start_reruns(reruns);
    return retired;
end
$$;

-- Makes the next jobs out of what was asked for while their twins ran. They were taken on then: a switch that was turned
-- since does not lose them. Their twins leave in this very transaction, so nobody else can have their keys.
create function wakeful.start_reruns(reruns jsonb[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    at constant timestamptz := wakeful.now();
    asked constant wakeful.asked_job[] := array(
        select jsonb_populate_record(null::wakeful.asked_job, r.asked || jsonb_build_object('place', r.place))
        from unnest(reruns) with ordinality r(asked, place));
begin
    if asked <> '{}' then
        perform wakeful.insert_asked(asked, wakeful.speakers(asked, at), at);
    end if;
end
$$;

-- Ends the attempts of locked rows whose own lease lapsed; returns how many.
create function wakeful.end_lapsed(ids uuid[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if ids <> '{}' then
        perform wakeful.end_attempts(array(
            select row(i.id, 'lapsed', 'lease_lapsed', 'its lease was not renewed in time', null, interval '0', true)::wakeful.ended_attempt
            from unnest(ids) i(id)), at);
    end if;
    return cardinality(ids);
end
$$;

-- Ends the attempts of locked rows whose worker's lease lapsed; returns how many. A job that was alone in its worker
-- brought it down, as far as anyone can tell: that is charged, and the third time kills it. Jobs that shared a worker lose
-- nothing; the second time they come under suspicion and run alone. A server that was restarted since the worker's last
-- beat is what kept it from beating: no crash at all.
create function wakeful.end_crashed(ids uuid[], alone boolean, restarted boolean, at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    if ids = '{}' then
        return 0;
    end if;
    update wakeful.job j
    set crashes = j.crashes + case when alone and not restarted then 1 else 0 end,
        shared_crashes = j.shared_crashes + case when alone or restarted then 0 else 1 end,
        suspect = j.suspect or not restarted and (alone or j.shared_crashes >= 1)
    where j.id = any (ids);
    perform wakeful.end_attempts(array(
        select row(j.id, 'crashed', 'worker_crashed',
            case when j.crashes >= 3 then 'its worker died three times while it ran alone' else 'its worker stopped beating' end,
            null, case when j.crashes < 3 then interval '0' end, alone and not restarted)::wakeful.ended_attempt
        from wakeful.job j where j.id = any (ids)), at);
    return cardinality(ids);
end
$$;
