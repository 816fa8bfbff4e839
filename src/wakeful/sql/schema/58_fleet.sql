-- The fleet: a worker comes, beats and goes.
-- Promise: a worker's lease covers all its jobs with one row a beat. A lease that has lapsed is not taken up again: the
--   worker registers under a new id, since its jobs may be with others by now.
-- Locks: the worker's own row.
create function wakeful.register_1(
    worker_id uuid, name text, queues text[], tasks text[], slots integer, lease interval, details jsonb default null)
    returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    at constant timestamptz := wakeful.now();
begin
    if num_nulls(register_1.worker_id, register_1.name, register_1.tasks, register_1.slots) > 0 then
        perform wakeful.refuse('WF003', 'a worker needs an id, a name, tasks and slots', 'Give all four; tasks may be empty.');
    end if;
    perform wakeful.check_lease(register_1.lease);
    insert into wakeful.worker (id, name, queues, tasks, slots, started_at, beat_at, lease_expires_at, details)
    values (register_1.worker_id, register_1.name, register_1.queues, register_1.tasks, register_1.slots, at, at,
        at + register_1.lease, register_1.details);
end
$$;

-- Renews the worker's lease; false when it has lapsed.
create function wakeful.beat_1(worker_id uuid, lease interval) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
    lapses_at timestamptz;
    at timestamptz;
begin
    perform wakeful.check_lease(beat_1.lease);
    -- The clock is read behind the lock: the lease may have lapsed while this waited.
    select w.lease_expires_at into lapses_at from wakeful.worker w where w.id = beat_1.worker_id for no key update;
    at := wakeful.now();
    if lapses_at is null or lapses_at <= at then
        return false;
    end if;
    update wakeful.worker w set beat_at = at, lease_expires_at = at + beat_1.lease where w.id = beat_1.worker_id;
    return true;
end
$$;

-- The claims that the worker holds: what it asks when the answer to a claim was lost. It gives back those it never heard of.
create function wakeful.held_1(worker_id uuid) returns table (id uuid, epoch bigint)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query select j.id, j.epoch from wakeful.job j where j.state = 2 and j.worker_id = held_1.worker_id;
end
$$;

-- Takes the worker off the list. Jobs it still holds are released, uncharged.
create function wakeful.leave_1(worker_id uuid) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    at constant timestamptz := wakeful.now();
    held uuid[];
begin
    perform from wakeful.worker w where w.id = leave_1.worker_id for update;
    held := array(
        select j.id from wakeful.job j where j.state = 2 and j.worker_id = leave_1.worker_id order by j.id for update);
    perform wakeful.end_attempts(array(
        select row(h.id, 'released', null, null, null, interval '0', false)::wakeful.ended_attempt from unnest(held) h(id)), at);
    delete from wakeful.sleeper s where s.worker_id = leave_1.worker_id;
    delete from wakeful.worker w where w.id = leave_1.worker_id;
    return cardinality(held);
end
$$;
