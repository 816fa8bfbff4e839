-- Settle: what becomes of a claimed job, by the one who holds it.
-- Promise: the fence is (id, epoch, worker_id) with the job running. Whatever does not pass it changes nothing, and is
--   told: the set-wise forms return the refused rows, the single ones raise WF001, so that a transaction they are part
--   of fails. A row that this very claim has settled already is refused as 'settled', anything else as 'stale'.
-- Locks: the jobs' rows in id order, waiting for them; extend skips locked rows and reports them as 'locked'.

-- Completes jobs. The state is compared as state + 0: the primary key must find the row, not an index on state.
create function wakeful.complete_1(worker_id uuid, ids uuid[], epochs bigint[], results text[] default null)
    returns table (id uuid, refused text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    tids tid[];
    done uuid[];
    reruns jsonb[];
    metered wakeful.measured_run[];
    slots wakeful.slot[];
    listened boolean;
begin
    -- No join that a plan made while the table was empty could turn round, to walk all of it.
    tids := array(
        select l.tid
        from (select s.id, s.epoch from unnest(ids, epochs) s(id, epoch) order by s.id) s
        cross join lateral (
            select j.ctid as tid from wakeful.job j
            where j.id = s.id and j.epoch = s.epoch and j.worker_id = complete_1.worker_id and j.state + 0 = 2
            for update
        ) l);
    -- A later statement, hence a later snapshot: it sees the rows as they were locked.
    with gone as (
        delete from wakeful.job j where j.ctid = any (tids) returning j.*
    ), kept as (
        insert into wakeful.finished_job (
            id, queue, task, state, rank, attempt, max_attempts, epoch, run_at, ready_at, started_at, finished_at, expires_at,
            created_at, worker_id, correlation_id, parent_id, origin_id, dedup_key, tenant, created_by, payload, metadata,
            attempts, progress, counters, result)
        select g.id, g.queue, g.task, 3, g.rank, g.attempt, g.max_attempts, g.epoch, g.run_at, g.ready_at, g.started_at,
            at, g.expires_at, g.created_at, g.worker_id, g.correlation_id, g.parent_id, g.origin_id, g.dedup_key, g.tenant,
            g.created_by, g.payload, g.metadata, g.attempts, g.progress, g.counters,
            case
                when results is null then null
                when epochs[array_position(ids, g.id)] = g.epoch then results[array_position(ids, g.id)]::jsonb
                else (select s.result::jsonb from unnest(ids, epochs, results) s(id, epoch, result)
                    where s.id = g.id and s.epoch = g.epoch limit 1) end
        from gone g
    ), counted as (
        insert into wakeful.tally_delta (day, task, state, jobs)
        select wakeful.day_of(at), g.task, 3, count(*) from gone g group by g.task
    ), measured as (
        insert into wakeful.metric_delta (minute, task, outcome, run_bucket, wait_bucket, runs, run_seconds, wait_seconds)
        select date_trunc('minute', at), m.task, 'completed', wakeful.bucket_of(m.run), wakeful.bucket_of(m.wait), count(*),
            sum(m.run), sum(m.wait)
        from (select g.task, date_part('epoch', at - g.started_at) as run, date_part('epoch', g.started_at - g.ready_at) as wait
            from gone g) m
        group by m.task, 4, 5
    )
    select array_agg(g.id), array_agg(g.rerun) filter (where g.rerun is not null),
        array_agg(row(g.task, g.tenant, 'completed', g.started_at, g.ready_at, g.counters)::wakeful.measured_run)
            filter (where g.tenant is not null or g.counters is not null),
        array_agg(row(g.queue, g.task, g.limit_key)::wakeful.slot) filter (where g.limit_key is not null),
        -- Nearly always none does, and a success then writes nothing.
        exists (select from wakeful.breaker b where b.attentive)
    into done, reruns, metered, slots, listened from gone g;
    if metered is not null then
        perform wakeful.meter(metered, at);
    end if;
    if slots is not null then
        perform wakeful.free_slots(slots);
    end if;
    if listened and done is not null then
        perform wakeful.breakers_hear_of(done, at);
    end if;
    if reruns is not null then
        perform wakeful.start_reruns(reruns);
    end if;
    if coalesce(cardinality(done), 0) < cardinality(ids) then
        return query select * from wakeful.refusals(complete_1.worker_id, ids, epochs, done);
    end if;
end
$$;

-- Whether a history tells that this claim was ended by its own holder, rather than taken from it.
create function wakeful.settled_by(attempts jsonb, epoch bigint, worker_id uuid) returns boolean
    language sql immutable parallel safe
    return exists (
        select from jsonb_array_elements(attempts) a(entry)
        where a.entry @> jsonb_build_object('epoch', epoch, 'worker_id', worker_id)
          and a.entry ->> 'outcome' not in ('lapsed', 'crashed'));

-- Why each row that is not in `done` was refused.
create function wakeful.refusals(worker_id uuid, ids uuid[], epochs bigint[], done uuid[])
    returns table (id uuid, refused text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    select s.id, case
        when exists (
            select from wakeful.finished_job f
            where f.id = s.id and f.epoch = s.epoch and f.worker_id = refusals.worker_id
              and (f.state = 3 or wakeful.settled_by(f.attempts, s.epoch, refusals.worker_id))) then 'settled'
        when exists (
            select from wakeful.dead_letter d
            where d.id = s.id and wakeful.settled_by(d.original_job -> 'attempts', s.epoch, refusals.worker_id)) then 'settled'
        when exists (
            select from wakeful.job j
            where j.id = s.id and wakeful.settled_by(j.attempts, s.epoch, refusals.worker_id)) then 'settled'
        else 'stale' end
    from unnest(ids, epochs) s(id, epoch)
    where done is null or s.id <> all (done);
end
$$;

-- Locks through the fence, in id order, waiting; returns the places of the claims that pass it. By place, because a set may
-- hold a stale and the current claim of one job. The ids are asked for twice, and joined by hash, so that no plan walks the
-- whole table: to one that was made while it was empty, that looks cheapest.
create function wakeful.pass_fence(worker_id uuid, ids uuid[], epochs bigint[]) returns integer[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
begin
    return array(
        select s.place::integer
        from (select s.id, s.epoch, s.place from unnest(ids, epochs) with ordinality s(id, epoch, place) order by s.id) s
        join wakeful.job j on j.id = s.id
        where j.id = any (ids) and j.epoch = s.epoch and j.worker_id = pass_fence.worker_id and j.state + 0 = 2
        for update of j);
end
$$;

-- Ends attempts otherwise than by completion. outcomes: failed, snoozed, released, cancelled. retry_ins: null for a
-- failed one means no further start. A cancelled one is over; a snoozed or released one is not charged. faults: whether a failure
-- is the fault of the service behind the task's breaker; null for yes.
create function wakeful.settle_1(
    worker_id uuid, ids uuid[], epochs bigint[], outcomes text[], codes text[], messages text[], details text[],
    retry_ins interval[], faults boolean[] default null)
    returns table (id uuid, refused text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    passed constant integer[] := wakeful.pass_fence(settle_1.worker_id, ids, epochs);
    ends constant wakeful.ended_attempt[] := array(
        select row(s.id, s.outcome, s.code, s.message, s.details::jsonb, s.retry_in, s.outcome = 'failed')::wakeful.ended_attempt
        from unnest(ids, outcomes, codes, messages, settle_1.details, retry_ins) with ordinality
            s(id, outcome, code, message, details, retry_in, place)
        where s.place = any (passed));
begin
    if exists (select from unnest(outcomes) o(outcome)
        where o.outcome is null or o.outcome not in ('failed', 'snoozed', 'released', 'cancelled')) then
        perform wakeful.refuse('WF003', 'an outcome is not known', 'Use failed, snoozed, released or cancelled.');
    elsif exists (select from unnest(outcomes, retry_ins) o(outcome, retry_in)
        where o.retry_in < interval '0' or o.retry_in > wakeful.longest() or o.retry_in is null and o.outcome in ('snoozed', 'released')) then
        perform wakeful.refuse('WF003', format('a wait is missing, negative, or longer than %s', wakeful.longest()),
            'Give zero or more; null only for a failure that is not tried again.');
    end if;
    if exists (select from wakeful.task_policy p where p.breaker is not null) then
        perform wakeful.breakers_hear_of_failed(array(
            select s.id from unnest(ids, outcomes, faults) with ordinality s(id, outcome, fault, place)
            where s.place = any (passed) and s.outcome = 'failed' and s.fault is not false), at);
    end if;
    perform wakeful.retire_cancelled(array(select e from unnest(ends) e where e.outcome = 'cancelled'), at);
    perform wakeful.end_attempts(array(select e from unnest(ends) e where e.outcome <> 'cancelled'), at);
    if cardinality(passed) < cardinality(ids) then
        return query select * from wakeful.refusals(settle_1.worker_id, ids, epochs, array(select e.id from unnest(ends) e));
    end if;
end
$$;

-- Renews the leases of jobs that have one of their own, and gives one to those that live by their worker's.
create function wakeful.extend_1(worker_id uuid, ids uuid[], epochs bigint[], leases interval[])
    returns table (id uuid, refused text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    passed integer[];
begin
    -- A job without any lease would be nobody's to rescue.
    if cardinality(leases) is distinct from cardinality(ids) or (interval '0' < all (leases) and wakeful.longest() >= all (leases)) is not true then
        perform wakeful.refuse('WF003', format('a lease is missing, not positive, or longer than %s', wakeful.longest()),
            'Give one for each job, such as 5 minutes.');
    end if;
    passed := array(
        select s.place::integer
        from (select s.id, s.epoch, s.place from unnest(ids, epochs) with ordinality s(id, epoch, place) order by s.id) s
        join wakeful.job j on j.id = s.id
        where j.id = any (ids) and j.epoch = s.epoch and j.worker_id = extend_1.worker_id and j.state + 0 = 2
        for update of j skip locked);
    update wakeful.job j set lease_expires_at = at + s.lease, updated_at = at
    from unnest(ids, leases) with ordinality s(id, lease, place)
    where j.id = any (ids) and j.id = s.id and s.place = any (passed);
    if cardinality(passed) < cardinality(ids) then
        return query
        select r.id, case when r.id = any (array(
            select j.id from unnest(ids, epochs) s(id, epoch) join wakeful.job j on j.id = s.id and j.epoch = s.epoch
            where j.id = any (ids) and j.worker_id = extend_1.worker_id and j.state + 0 = 2)) then 'locked' else r.refused end
        from wakeful.refusals(extend_1.worker_id, ids, epochs,
            array(select s.id from unnest(ids) with ordinality s(id, place) where s.place = any (passed))) r;
    end if;
end
$$;

-- Whether this claim completed the job: what a client asks whose COMMIT was left unanswered.
create function wakeful.completed_by_1(id uuid, epoch bigint, worker_id uuid) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
begin
    return exists (
        select from wakeful.finished_job f
        where f.id = completed_by_1.id and f.epoch = completed_by_1.epoch and f.worker_id = completed_by_1.worker_id
          and f.state = 3);
end
$$;
