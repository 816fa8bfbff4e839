-- Other people's loops: claims by callers outside the fleet, each job with a lease of its own, who may sleep until poked.
-- Promise: as in claim_1. Who sleeps here is on no list of workers, so its declaration lapses by itself: one whose process
--   was killed is poked for a minute at most. Null queues or tasks stand for all that wait.
-- Locks: see claim_1; the caller's row in sleeper.

-- Claims up to `want` jobs; one that must run alone only if there is nothing else. `sleeps_for`: when nothing was taken, or
-- `others` of the same process wait on, declares for that long that the process waits for pokes on `sleep_queues` (null: all);
-- otherwise takes the declaration back, as zero always does; null leaves it as it is. Returns the jobs, then the report.
create function wakeful.claim_any_1(
    worker_id uuid, queues text[], tasks text[], want integer, lease interval, sleeps_for interval default null,
    sleep_queues text[] default null, others boolean default false, pass_on boolean default false)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    -- Before version 18 a scan that is turned off counts as so dear that it is compiled, which takes half a second.
    set jit = off
as $$
#variable_conflict use_variable
declare
    served_queues text[] := queues;
    served_tasks text[] := tasks;
    taken wakeful.claimed_job;
    report wakeful.claimed_job;
    filled boolean := false;
    began constant timestamptz := wakeful.now();
    sure constant boolean := sleeps_for is null or wakeful.nobody_is_between();
begin
    if worker_id is null or want is null then
        perform wakeful.refuse('WF003', 'worker_id or want is missing', 'Give an id of your own, and how many jobs you can take.');
    end if;
    perform wakeful.check_lease(lease);
    if sleeps_for > wakeful.longest() then
        perform wakeful.refuse('WF003', format('sleeps_for is longer than %s', wakeful.longest()), 'Give an interval such as 1 minute.');
    end if;
    if queues is null or tasks is null then
        -- First, so that the jobs it takes back are among those that wait.
        perform wakeful.rescue();
        select coalesce(queues, array_agg(distinct p.queue), '{}'), coalesce(tasks, array_agg(distinct p.task), '{}')
        into served_queues, served_tasks from wakeful.waiting_pairs() p
        where (queues is null or p.queue = any (queues)) and (tasks is null or p.task = any (tasks));
    end if;
    for must_run_alone in 0..1 loop
        exit when filled or must_run_alone = 1 and report.suspects is not true;
        for taken in
            select * from wakeful.claim_1(worker_id, served_queues, array_fill(1, array[cardinality(served_queues)]),
                array[case must_run_alone when 0 then want else least(want, 1) end], served_tasks, lease,
                tend => must_run_alone = 0, pass_on => pass_on, alone => must_run_alone = 1)
        loop
            if taken.id is null then
                report := taken;
            else
                filled := true;
                return next taken;
            end if;
        end loop;
    end loop;
    if served_queues = '{}' or served_tasks = '{}' then
        report.due_in := least(report.due_in, wakeful.next_due('{}', '{}', began));
    end if;
    if sleeps_for > interval '0' and (others or not filled) then
        perform wakeful.declare_sleep(worker_id, sleep_queues, null, wakeful.now() + sleeps_for);
        perform wakeful.forget_lapsed_sleepers();
        if not sure then
            report.due_in := least(report.due_in, 0.05 + extract(epoch from wakeful.now() - began));
        end if;
    elsif sleeps_for is not null then
        perform wakeful.declare_sleep(worker_id, '{}', null);
    end if;
    return next report;
end
$$;

-- Takes back the declaration of a process in which nobody waits any more.
create function wakeful.wake_1(worker_id uuid) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform wakeful.declare_sleep(wake_1.worker_id, '{}', null);
end
$$;

-- Removes the declarations that have lapsed. Rows that someone holds are being renewed or removed already.
create function wakeful.forget_lapsed_sleepers() returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    delete from wakeful.sleeper s where s.worker_id in (
        select l.worker_id from wakeful.sleeper l where l.until <= wakeful.now() for update skip locked);
end;

-- Claims up to `want` jobs, each with a lease of its own; null queues or tasks stand for all. For any language and psql.
create function wakeful.claim(
    worker_id uuid, queues text[] default null, tasks text[] default null, want integer default 1,
    lease interval default '5 minutes')
    returns table (id uuid, task text, queue text, payload jsonb, attempt integer, max_attempts integer, epoch bigint,
        correlation_id uuid, tenant text, metadata jsonb, created_at timestamptz, lease_expires_at timestamptz)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select c.id, c.task, c.queue, c.payload, c.attempt, c.max_attempts, c.epoch, c.correlation_id, c.tenant, c.metadata,
        c.created_at, c.lease_expires_at
    from wakeful.claim_any_1(claim.worker_id, claim.queues, claim.tasks, claim.want, claim.lease) c
    where c.id is not null
    order by c.rank, c.ready_at, c.id;
end
$$;
