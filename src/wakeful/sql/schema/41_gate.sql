-- Gates: how many jobs may start now, of a task, of a queue, of a key, or behind a breaker.
-- Promise: a limit is never exceeded over all workers. Who wants to start jobs behind a gate locks it, and counts what runs in a later
--   statement. A slot comes free when its job does not run any more, however that came about.
-- Locks: an advisory lock for each gate, to the end of the transaction, and the rows of breakers that are not trusted. Nobody waits for
--   either: who finds one taken comes back in a moment. In a transaction with an old snapshot all gates are shut.

-- A queue and task of which something is said. The gates that it is behind are null where there are none.
create type wakeful.steered_pair as (
    queue text, task text, task_gate text, queue_gate text, breaker text, keyed_by text, key_path text[], limited boolean,
    fair boolean, ageing interval
);

-- A gate with the number of jobs that may pass it now (null: any), the seconds until it is worth asking again, and whether someone else
-- has it.
create type wakeful.gate_state as (name text, room integer, wait double precision, busy boolean);

create function wakeful.task_gate(task text) returns text
    language sql immutable parallel safe return 'task ' || task;

create function wakeful.queue_gate(queue text) returns text
    language sql immutable parallel safe return 'queue ' || queue;

-- The gate of a key. A long one is told by its hash; jobs without the key share a gate.
create function wakeful.key_gate(task text, key text) returns text
    language sql immutable parallel safe
    return 'task ' || task || ' key ' || case when octet_length(key) > 200 then md5(key) else coalesce(key, '') end;

-- The pairs of which something is said that changes how they are claimed.
create function wakeful.steered_pairs(queues text[], tasks text[]) returns wakeful.steered_pair[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select row(q.queue, t.task,
            case when p.keyed_by is null and num_nonnulls(p.concurrency, p.every) > 0 then wakeful.task_gate(t.task) end,
            case when num_nonnulls(r.concurrency, r.every) > 0 then wakeful.queue_gate(q.queue) end,
            p.breaker, p.keyed_by, p.key_path, p.task is not null or num_nonnulls(r.concurrency, r.every) > 0,
            coalesce(r.fair, false), r.ageing)::wakeful.steered_pair
        from unnest(queues) q(queue)
        cross join unnest(tasks) t(task)
        left join wakeful.task_policy p on p.task = t.task
        left join wakeful.queue_policy r on r.queue = q.queue and (num_nonnulls(r.concurrency, r.every, r.ageing) > 0 or r.fair)
        where p.task is not null or r.queue is not null);
end
$$;

-- Takes those of the gates that nobody else has.
create function wakeful.take_gates(names text[]) returns text[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select n.name from unnest(names) n(name)
        where pg_try_advisory_xact_lock(hashtextextended('wakeful.gate ' || n.name, 0)));
end
$$;

-- How many starts the rate of a gate allows now: one every `every`, `burst` at once.
create function wakeful.tokens(arrives_at timestamptz, every interval, burst integer, at timestamptz) returns integer
    language sql immutable parallel safe
    return burst - least(ceil(extract(epoch from greatest(arrives_at - at, interval '0')) / extract(epoch from every)), 2000000000)::integer;

-- The seconds until it allows one.
create function wakeful.token_in(arrives_at timestamptz, every interval, burst integer, at timestamptz) returns double precision
    language sql immutable parallel safe
    return greatest(0.001, extract(epoch from arrives_at - at - (burst - 1) * every))::double precision;

-- The state of gates that the caller has taken, of a task, a queue, or a key of `task`.
create function wakeful.gate_states(names text[], tasks text[], queues text[], at timestamptz) returns wakeful.gate_state[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return array(
        select row(s.name, least(s.concurrency - s.running, s.tokens),
            case when s.tokens <= 0 then wakeful.token_in(s.arrives_at, s.every, s.burst, gate_states.at) end,
            false)::wakeful.gate_state
        from (
            select n.name, l.concurrency, l.every, l.burst, g.arrives_at,
                case when l.every is not null then wakeful.tokens(g.arrives_at, l.every, l.burst, gate_states.at) end as tokens,
                case when l.concurrency is null then 0
                    when n.queue is not null then (
                        select count(*) from wakeful.job j where j.queue = n.queue and j.state = 2 and j.queue_slot)
                    else (select count(*) from wakeful.job j where j.limit_key = n.name and j.state = 2) end::integer as running
            from unnest(names, tasks, queues) n(name, task, queue)
            cross join lateral (
                select p.concurrency, p.every, p.burst from wakeful.task_policy p where p.task = n.task and n.queue is null
                union all
                select r.concurrency, r.every, r.burst from wakeful.queue_policy r where r.queue = n.queue
            ) l
            left join wakeful.gate g on g.key = n.name
        ) s);
end
$$;

-- The state of the breakers that are not trusted, of those named; the others do not matter. One that is to be asked for probes is
-- locked.
create function wakeful.breaker_states(names text[], at timestamptz) returns wakeful.gate_state[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    states wakeful.gate_state[] := '{}';
    seen wakeful.breaker;
    held wakeful.breaker;
begin
    for seen in select b.* from wakeful.breaker b where (b.attentive or b.tried_at is null) and b.name = any (names) order by b.name loop
        if seen.state = 'open' and seen.probe_at > at then
            states := states || row(seen.name, 0, null, false)::wakeful.gate_state;
            continue;
        end if;
        select b.* into held from wakeful.breaker b where b.name = seen.name for update skip locked;
        if found then
            states := states || row(seen.name, wakeful.room_behind(held, at), null, false)::wakeful.gate_state;
        else
            states := states || row(seen.name, 0, null, true)::wakeful.gate_state;
        end if;
    end loop;
    return states;
end
$$;

-- The state of all gates of these pairs but those of keys.
create function wakeful.gates_of(pairs wakeful.steered_pair[], at timestamptz) returns wakeful.gate_state[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    names text[];
    tasks text[];
    queues text[];
    taken text[];
begin
    select array_agg(g.name), array_agg(g.task), array_agg(g.queue) into names, tasks, queues
    from (
        select p.task_gate as name, p.task, null as queue from unnest(pairs) p where p.task_gate is not null
        union
        select p.queue_gate, null, p.queue from unnest(pairs) p where p.queue_gate is not null
        order by 1
    ) g;
    taken := wakeful.take_gates(names);
    -- A later statement than the one that took them.
    return array(select s from unnest(wakeful.gate_states(names, tasks, queues, at)) s where s.name = any (taken))
        || array(select row(n.name, 0, null, true)::wakeful.gate_state from unnest(names) n(name) where n.name <> all (taken))
        || array(
            select row('breaker ' || b.name, b.room, b.wait, b.busy)::wakeful.gate_state
            from unnest(wakeful.breaker_states(array(
                select distinct p.breaker from unnest(pairs) p where p.breaker is not null), at)) b);
end
$$;

-- A running job that counts against a limit has ended, by whichever end.
create type wakeful.slot as (queue text, task text, limit_key text);

-- Has whoever waits for these slots look for them: what is parked behind a key is marked, and sleepers are poked.
create function wakeful.free_slots(slots wakeful.slot[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
begin
    insert into wakeful.freed_slot (task, key)
    select distinct s.task, s.limit_key from unnest(slots) s
    where exists (select from wakeful.task_policy p where p.task = s.task and p.keyed_by is not null);
    -- Who is parked behind it, else who is in line: of the same task, or of any if the slot was the queue's.
    perform wakeful.poke(w.queue, w.task, wakeful.now(), null, null, null)
    from (
        select distinct coalesce(parked.queue, same.queue, other.queue) as queue, coalesce(parked.task, same.task, other.task) as task
        from (select distinct s.queue, s.task, s.limit_key from unnest(slots) s) s
        left join lateral (
            select j.queue, j.task from wakeful.job j where j.limit_key = s.limit_key and j.state = 1
            order by j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) parked on true
        left join lateral (
            select j.queue, j.task from wakeful.job j
            where parked.queue is null and j.queue = s.queue and j.task = s.task and j.state = 1 and j.limit_key is null
            order by j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) same on true
        left join lateral (
            select j.queue, j.task from wakeful.job j
            where parked.queue is null and same.queue is null and j.queue = s.queue and j.state = 1 and j.limit_key is null
            order by j.queue, j.task, j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) other on true
    ) w where w.queue is not null;
end
$$;

-- Keeps in mind that jobs are parked behind these keys, which the caller has taken and let some through: until when, or that
-- there is room for more.
create function wakeful.mark_gates(keys text[], tasks text[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    found record;
begin
    for found in
        select s.name, s.room, s.wait, k.task, w.id is not null as parked
        from unnest(wakeful.gate_states(keys, tasks, null, at)) s
        join unnest(keys, tasks) k(key, task) on k.key = s.name
        -- Not exists: as a subquery of the list it may be answered by a look at all jobs.
        left join lateral (
            select j.id from wakeful.job j where j.limit_key = s.name and j.state = 1
            order by j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) w on true
    loop
        if found.parked and found.room > 0 then
            insert into wakeful.freed_slot (task, key) values (found.task, found.name);
        end if;
        update wakeful.gate g
        set wake_at = case when found.parked and found.wait is not null then mark_gates.at + make_interval(secs => found.wait) end
        where g.key = found.name and (g.wake_at is not null or found.parked and found.wait is not null);
    end loop;
end
$$;

-- The seconds, from `since` on, until the next probe of a breaker, or the next start that a rate allows, of jobs of these tasks; null for
-- none. What is overdue is left a moment from now.
create function wakeful.next_gate(tasks text[], since timestamptz) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    soon constant timestamptz := wakeful.now() + interval '10 milliseconds';
    probe_at timestamptz;
    wake_at timestamptz;
begin
    select min(b.probe_at) into probe_at from wakeful.breaker b
    where b.state = 'open' and exists (select from wakeful.task_policy p where p.breaker = b.name and p.task = any (tasks));
    select min(g.wake_at) into wake_at from wakeful.gate g where g.task = any (tasks) and g.wake_at is not null;
    return case when num_nonnulls(probe_at, wake_at) > 0 then extract(epoch from greatest(soon, least(probe_at, wake_at)) - since) end;
end
$$;
