-- Picking: which jobs of steered tasks and queues may start now.
-- Promise: in the order of the line, as far as the gates allow. Jobs behind a gate of a whole task, queue or breaker stay in line, and their
--   range of the index is not read while it is shut. Jobs behind the full gate of a key are parked: taken out of line once,
--   and found by their key when a slot comes free. So nobody walks over the same blocked jobs again and again.
-- Locks: gates (see there); the jobs that are picked or parked, skipping locked ones; an advisory lock, shared, for each task of which jobs are
--   parked or were.

-- A job that may start. `rank` and `place` say where it stands among jobs of other tasks, `ordinal` among those picked with it,
-- `line_rank` is its own. `key` is the gate of its key.
create type wakeful.pick as (
    id uuid, queue text, task text, rank smallint, place timestamptz, ordinal bigint, line_rank smallint, turn timestamptz,
    limit_key text, queue_slot boolean, breaker text, key text, parked boolean
);

-- What picking came to. `keys` are gates of keys behind which jobs are parked, and which have to be marked once the picked jobs have
-- started; busy: something may be had in a moment; held_back: there is more, but no slot that is free.
create type wakeful.picking as (picks wakeful.pick[], keys text[], key_tasks text[], busy boolean, held_back boolean);

-- The ranks at which jobs of this pair are in line.
create function wakeful.ranks_in(queue text, task text) returns smallint[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    ranks smallint[] := '{}';
    next smallint := -101;
begin
    loop
        select j.rank into next from wakeful.job j
        where j.queue = ranks_in.queue and j.task = ranks_in.task and j.state = 1 and j.limit_key is null and j.rank > next
        order by j.rank limit 1;
        exit when not found;
        ranks := ranks || next;
    end loop;
    return ranks;
end
$$;

-- The first `look` jobs in line of these pairs, in order. In a queue with ageing each rank is a line of its own, and who has waited
-- counts as higher. A fair queue stands among others by the oldest of its first jobs.
create function wakeful.heads(pairs wakeful.steered_pair[], look integer, alone boolean, at timestamptz) returns wakeful.pick[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
begin
    return array(
        select row(o.id, o.queue, o.task, o.rank, o.place, row_number() over (order by o.rank, o.place, o.line_place, o.id),
            o.line_rank, o.turn, coalesce(o.key, o.task_gate, o.queue_gate), o.queue_gate is not null, o.breaker, o.key, false)::wakeful.pick
        from (
            select h.id, p.queue, p.task, p.task_gate, p.queue_gate, p.breaker, h.turn, h.line_place, h.rank as line_rank,
                greatest(-100, case when p.ageing is null then h.rank
                    else h.rank - floor(extract(epoch from heads.at - h.ready_at) / extract(epoch from p.ageing)) end)::smallint as rank,
                case when p.fair then min(h.ready_at) over (partition by p.queue) else h.ready_at end as place,
                case p.keyed_by when 'tenant' then wakeful.key_gate(p.task, h.tenant)
                    when 'payload' then wakeful.key_gate(p.task, h.payload #>> p.key_path) end as key
            from unnest(pairs) p
            cross join lateral unnest(case when p.ageing is null then array[null::smallint] else wakeful.ranks_in(p.queue, p.task) end) r(rank)
            cross join lateral (
                (select j.id, j.rank, j.ready_at, j.turn, coalesce(j.turn, j.ready_at) as line_place, j.tenant, j.payload
                from wakeful.job j
                where not heads.alone and r.rank is null and j.queue = p.queue and j.task = p.task and j.state = 1
                  and j.limit_key is null and not j.suspect and (j.expires_at is null or j.expires_at > heads.at)
                order by j.rank, coalesce(j.turn, j.ready_at), j.id limit look)
                union all
                (select j.id, j.rank, j.ready_at, j.turn, coalesce(j.turn, j.ready_at), j.tenant, j.payload
                from wakeful.job j
                where not heads.alone and r.rank is not null and j.queue = p.queue and j.task = p.task and j.state = 1
                  and j.limit_key is null and j.rank = r.rank and not j.suspect and (j.expires_at is null or j.expires_at > heads.at)
                order by j.rank, coalesce(j.turn, j.ready_at), j.id limit look)
                union all
                (select j.id, j.rank, j.ready_at, j.turn, coalesce(j.turn, j.ready_at), j.tenant, j.payload
                from wakeful.job j
                where heads.alone and (r.rank is null or j.rank = r.rank) and j.queue = p.queue and j.task = p.task and j.state = 1
                  and j.limit_key is null and j.suspect and (j.expires_at is null or j.expires_at > heads.at)
                order by j.rank, j.ready_at, j.id limit look)
            ) h
        ) o
        order by o.rank, o.place, o.line_place, o.id
        limit look);
end
$$;

-- The first jobs of these pairs that are parked behind these keys, as many of each as there is room for.
create function wakeful.parked_heads(states wakeful.gate_state[], pairs wakeful.steered_pair[], want integer, at timestamptz)
    returns wakeful.pick[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    queues constant text[] := array(select distinct p.queue from unnest(pairs) p);
begin
    return array(
        select row(h.id, h.queue, h.task, h.rank, h.ready_at, row_number() over (order by h.rank, h.line_place, h.id) - 1000000,
            h.rank, h.turn, s.name, p.queue_gate is not null, p.breaker, s.name, true)::wakeful.pick
        from unnest(states) s
        cross join lateral (
            select j.id, j.queue, j.task, j.rank, j.ready_at, j.turn, coalesce(j.turn, j.ready_at) as line_place
            from wakeful.job j
            where j.limit_key = s.name and j.state = 1 and (j.expires_at is null or j.expires_at > parked_heads.at)
              -- Others of the key may be in a queue that is paused, or that this claim does not serve.
              and j.queue::text = any (queues)
            order by j.rank, coalesce(j.turn, j.ready_at), j.id
            limit least(s.room, want)
        ) h
        join unnest(pairs) p on p.queue = h.queue and p.task = h.task
        where s.room > 0);
end
$$;

-- Goes through candidates in order: who passes all its gates, and who has to be parked because only its key is full. Of those behind
-- gates `free` may pass; cut: there were more; tried: so many were gone through.
create function wakeful.pass_gates(
    candidates wakeful.pick[], want integer, free integer, inout gates wakeful.gate_state[],
    out passed wakeful.pick[], out parked wakeful.pick[], out cut boolean, out tried integer)
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    names constant text[] := array(select g.name from unnest(gates) g);
    rooms integer[] := array(select g.room from unnest(gates) g);
    candidate wakeful.pick;
    places integer[];
    shut integer[];
    i integer;
    left_free integer := free;
begin
    passed := '{}';
    parked := '{}';
    cut := false;
    tried := 0;
    foreach candidate in array candidates loop
        exit when cardinality(passed) >= want;
        tried := tried + 1;
        if candidate.limit_key is null and candidate.breaker is null then
            passed := passed || candidate;
            continue;
        end if;
        places := array_remove(array[
            array_position(names, 'breaker ' || candidate.breaker),
            array_position(names, candidate.limit_key),
            case when candidate.queue_slot then nullif(array_position(names, wakeful.queue_gate(candidate.queue)),
                array_position(names, candidate.limit_key)) end], null);
        shut := '{}';
        foreach i in array places loop
            if rooms[i] <= 0 then
                shut := shut || i;
            end if;
        end loop;
        if shut = '{}' and left_free > 0 then
            passed := passed || candidate;
            left_free := left_free - 1;
            foreach i in array places loop
                rooms[i] := rooms[i] - 1;
            end loop;
        elsif shut = '{}' then
            cut := true;
        elsif cardinality(shut) = 1 and names[shut[1]] = candidate.key and not (gates[shut[1]]).busy and not candidate.parked then
            parked := parked || candidate;
        end if;
    end loop;
    gates := array(
        select row(g.name, r.room, g.wait, g.busy)::wakeful.gate_state
        from unnest(gates) with ordinality g(name, room, wait, busy, place)
        join unnest(rooms) with ordinality r(room, place) using (place) order by g.place);
end
$$;

-- Locks the first `most` of these jobs that nobody else has, and returns those.
create function wakeful.lock_picks(picks wakeful.pick[], most integer) returns wakeful.pick[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    ids constant uuid[] := array(select p.id from unnest(picks) p);
    locked constant uuid[] := array(
        select j.id from wakeful.job j
        where j.id = any (ids) and j.state + 0 = 1
        order by array_position(ids, j.id) limit most
        for update skip locked);
begin
    if cardinality(locked) = cardinality(picks) then
        return picks;
    end if;
    return array(select p from unnest(picks) p where p.id = any (locked));
end
$$;

-- Takes jobs out of line that wait for their key.
create function wakeful.park(picks wakeful.pick[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
declare
    held constant wakeful.pick[] := wakeful.lock_picks(picks, cardinality(picks));
    ids constant uuid[] := array(select h.id from unnest(held) h);
begin
    update wakeful.job j set limit_key = h.key, updated_at = park.at
    from unnest(held) h where j.id = any (ids) and j.id = h.id;
end
$$;

-- The states of gates, with those of the candidates' keys that are not among them yet.
create function wakeful.with_keys(gates wakeful.gate_state[], candidates wakeful.pick[], at timestamptz) returns wakeful.gate_state[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    names text[];
    tasks text[];
    taken text[];
begin
    select array_agg(k.key), array_agg(k.task) into names, tasks
    from (
        select distinct c.key, c.task from unnest(candidates) c
        where c.key is not null and c.key <> all (array(select g.name from unnest(gates) g))
    ) k;
    if names is null then
        return gates;
    end if;
    taken := wakeful.take_gates(names);
    return gates
        || array(select s from unnest(wakeful.gate_states(names, tasks, null, at)) s where s.name = any (taken))
        || array(select row(n.name, 0, null, true)::wakeful.gate_state from unnest(names) n(name) where n.name <> all (taken));
end
$$;

-- Holds off a change of what is said of these tasks to the end of the transaction, and returns those whose keys are still as the pairs
-- have it: what is parked behind the key of a limit that is gone would be looked for by nobody. Nobody waits: who changes a policy
-- is soon done.
create function wakeful.keep_keyed(pairs wakeful.steered_pair[], tasks text[]) returns text[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    held constant text[] := array(
        select distinct t.task from unnest(tasks) t(task)
        where pg_try_advisory_xact_lock_shared(hashtextextended('wakeful.keyed ' || t.task, 0)));
begin
    -- A later statement than the one that held it off.
    return array(
        select p.task from wakeful.task_policy p
        where p.task = any (held) and exists (
            select from unnest(pairs) s where s.task = p.task and (s.keyed_by, s.key_path) is not distinct from (p.keyed_by, p.key_path)));
end
$$;

-- Takes the gates of keys behind which jobs are parked that may start: a slot came free, or the rate allows one. busy: someone else
-- has one of them.
create function wakeful.revive(
    pairs wakeful.steered_pair[], most integer, at timestamptz, out keys text[], out key_tasks text[], out busy boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    tasks constant text[] := array(select distinct p.task from unnest(pairs) p where p.keyed_by is not null);
    kept text[];
    taken text[];
    found_keys integer;
begin
    busy := false;
    select array_agg(k.key), array_agg(k.task) into keys, key_tasks
    from (
        select distinct f.key, f.task from (
            select f.key, f.task from unnest(tasks) t(task) cross join lateral (
                select f.key, f.task from wakeful.freed_slot f where f.task = t.task limit most) f
            union all
            select g.key, g.task from unnest(tasks) t(task) cross join lateral (
                select g.key, g.task from wakeful.gate g
                where g.task = t.task and g.wake_at is not null and g.wake_at <= revive.at order by g.wake_at limit most) g
        ) f limit most
    ) k;
    if keys is null then
        keys := '{}';
        key_tasks := '{}';
        return;
    end if;
    found_keys := cardinality(keys);
    kept := wakeful.keep_keyed(pairs, key_tasks);
    taken := wakeful.take_gates(array(select k.key from unnest(keys, key_tasks) k(key, task) where k.task = any (kept)));
    select coalesce(array_agg(k.key), '{}'), coalesce(array_agg(k.task), '{}') into keys, key_tasks
    from unnest(keys, key_tasks) k(key, task) where k.key = any (taken);
    busy := cardinality(keys) < found_keys;
    delete from wakeful.freed_slot f where f.task = any (key_tasks) and f.key = any (keys);
end
$$;

-- Picks up to `want` jobs of these pairs, of those behind gates up to `free`; below zero: so many are held ready already.
create function wakeful.pick(pairs wakeful.steered_pair[], want integer, free integer, alone boolean, at timestamptz)
    returns wakeful.picking
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    limited constant boolean := exists (select from unnest(pairs) p where p.limited);
    made wakeful.picking;
    gates wakeful.gate_state[] := '{}';
    open wakeful.steered_pair[] := pairs;
    fresh wakeful.pick[];
    passing record;
    seen uuid[] := '{}';
    -- Turns that have been taken are not to be had any more by who comes next: few are held ready behind busy slots. (With 16 in each of
    -- four processes another tenant's ten jobs waited for up to 141 of who was there first.)
    most constant integer := least(want, greatest(0, free + 4));
    look constant integer := greatest(most + 16, 32);
    looked integer;
    tried integer;
    kept text[];
    missed boolean := false;
begin
    made := row('{}', '{}', '{}', false, false);
    if limited and current_setting('transaction_isolation') <> 'read committed' then
        -- What an old snapshot counts is not what runs.
        open := array(select p from unnest(pairs) p where not p.limited);
    elsif limited then
        gates := wakeful.gates_of(pairs, at);
        if free > 0 and not alone then
            select r.keys, r.key_tasks, r.busy into made.keys, made.key_tasks, missed from wakeful.revive(pairs, 64, at) r;
            gates := gates || wakeful.gate_states(made.keys, made.key_tasks, null, at);
        end if;
    end if;
    for round in 1..8 loop
        if limited then
            open := array(
                select p from unnest(open) p
                where not exists (
                    select from unnest(gates) g
                    where g.room <= 0 and g.name in (p.task_gate, p.queue_gate, 'breaker ' || p.breaker)));
        end if;
        fresh := wakeful.heads(open, look + cardinality(seen), alone, at);
        looked := cardinality(fresh);
        if seen <> '{}' then
            fresh := array(select c from unnest(fresh) c where c.id <> all (seen) order by c.ordinal);
        end if;
        if round = 1 and made.keys <> '{}' then
            fresh := array(
                select c from (select u.* from unnest(fresh) u union all select u.* from unnest(wakeful.parked_heads(gates, pairs, most, at)) u) c
                order by c.rank, c.place, c.ordinal);
        end if;
        exit when fresh = '{}';
        if limited then
            gates := wakeful.with_keys(gates, fresh, at);
            select * into passing from wakeful.pass_gates(fresh, most - cardinality(made.picks),
                free - (select count(*) from unnest(made.picks) p where p.limit_key is not null or p.breaker is not null)::integer, gates);
            gates := passing.gates;
            tried := passing.tried;
            made.picks := made.picks || wakeful.lock_picks(passing.passed, cardinality(passing.passed));
            made.held_back := made.held_back or passing.cut;
            if passing.parked <> '{}' and not alone then
                kept := wakeful.keep_keyed(pairs, array(select c.task from unnest(passing.parked) c));
                missed := missed or exists (select from unnest(passing.parked) c where c.task <> all (kept));
                passing.parked := array(select c from unnest(passing.parked) c where c.task = any (kept));
                perform wakeful.park(passing.parked, at);
                -- Always a row, also where all of them are known: none would leave the keys null, and their marks forgotten.
                select made.keys || coalesce(array_agg(k.key), '{}'), made.key_tasks || coalesce(array_agg(k.task), '{}')
                into made.keys, made.key_tasks
                from (select distinct c.key, c.task from unnest(passing.parked) c where c.key <> all (made.keys)) k;
            end if;
        else
            made.picks := made.picks || wakeful.lock_picks(fresh, most - cardinality(made.picks));
            tried := cardinality(fresh);
        end if;
        made.held_back := made.held_back or cardinality(made.picks) >= most and most < want;
        exit when cardinality(made.picks) >= most or made.held_back
            or looked < look + cardinality(seen) and tried = cardinality(fresh);
        -- Only who was tried: where others were quicker, the next in line is next.
        seen := seen || array(select c.id from unnest(fresh[1:tried]) c);
        made.busy := round = 8;
    end loop;
    made.busy := made.busy or missed or exists (select from unnest(gates) g where g.busy);
    return made;
end
$$;
