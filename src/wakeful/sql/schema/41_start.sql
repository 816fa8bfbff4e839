-- Starting what was picked, and what there is to know afterwards.
-- Promise: of plain and of picked jobs the first in line are started. From its start on a job counts against its limits and has paid for its
--   rates, in the transaction that holds their gates.
-- Locks: none beyond those of picking.

-- Of the jobs chosen from plain tasks (where their rows are) and those picked, the first `want` in line.
create function wakeful.first_in_line(want integer, inout tids tid[], inout picks wakeful.pick[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    plain constant tid[] := tids;
    picked constant wakeful.pick[] := picks;
    taken uuid[];
begin
    if cardinality(plain) + cardinality(picked) <= want then
        return;
    end if;
    taken := array(
        select m.id from (
            select j.id, j.rank, coalesce(j.turn, j.ready_at) as place, 0 as ordinal from wakeful.job j where j.ctid = any (plain)
            union all
            select p.id, p.rank, p.place, p.ordinal from unnest(picked) p
        ) m
        order by m.rank, m.place, m.ordinal, m.id limit want);
    tids := array(select j.ctid from wakeful.job j where j.ctid = any (plain) and j.id = any (taken));
    picks := array(select p from unnest(picked) p where p.id = any (taken));
end
$$;

-- Pays for starts: the rates of the gates that they pass.
create function wakeful.pay(picks wakeful.pick[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    insert into wakeful.gate as g (key, task, arrives_at)
    select s.key, s.task, pay.at + s.starts * s.every
    from (
        select p.limit_key as key, p.task, l.every, count(*) as starts
        from unnest(picks) p join wakeful.task_policy l on l.task = p.task
        where l.every is not null and (p.key is not null or p.limit_key = wakeful.task_gate(p.task))
        group by p.limit_key, p.task, l.every
        union all
        select wakeful.queue_gate(p.queue), null, l.every, count(*)
        from unnest(picks) p join wakeful.queue_policy l on l.queue = p.queue
        where l.every is not null and p.queue_slot
        group by p.queue, l.every
    ) s
    on conflict on constraint gate_pkey do update
    set arrives_at = greatest(g.arrives_at, pay.at) + (excluded.arrives_at - pay.at);
end
$$;

-- Starts picked jobs: they count against their limits from here on, pay for their rates, and are noted as probes.
create function wakeful.start_picked(worker_id uuid, picks wakeful.pick[], lease interval, at timestamptz)
    returns setof wakeful.claimed_job
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    ids constant uuid[] := array(select p.id from unnest(picks) p);
begin
    return query
    update wakeful.job j
    set state = 2, attempt = j.attempt + 1, epoch = j.epoch + 1, worker_id = start_picked.worker_id, started_at = start_picked.at,
        lease_expires_at = start_picked.at + start_picked.lease, limit_key = p.limit_key, queue_slot = p.queue_slot,
        updated_at = start_picked.at
    from unnest(picks) p
    where j.id = any (ids) and j.id = p.id
    returning j.id, j.task::text, j.queue::text, j.payload::jsonb, j.attempt, j.max_attempts, j.epoch, p.rank,
        p.place, j.run_at, j.created_at, j.started_at, j.lease_expires_at, j.expires_at, j.correlation_id,
        j.parent_id, j.origin_id, j.tenant::text, j.created_by::text, j.metadata::jsonb, j.attempts, j.saved,
        null::double precision, null::boolean, null::uuid[], null::uuid[], null::jsonb, null::boolean;
    if exists (select from unnest(picks) p where p.limit_key is not null or p.breaker is not null) then
        perform wakeful.pay(picks, start_picked.at);
        perform wakeful.try_breakers(array(select distinct p.breaker from unnest(picks) p where p.breaker is not null), start_picked.at);
        insert into wakeful.probe as b (breaker, holder, epoch)
        select p.breaker, j.id, j.epoch
        from unnest(picks) p join wakeful.job j on j.id = p.id
        where j.id = any (ids) and p.breaker in (select b.name from wakeful.breaker b where b.state = 'half_open')
        on conflict on constraint probe_pkey do update set epoch = excluded.epoch, until = null;
    end if;
    perform wakeful.advance_turns(picks);
end
$$;

-- What a worker has to know whose lane took `taken` of `want` from these pairs, in a claim that began at `since`: when to look again.
-- Who got nothing, and does not mind the clock, leaves that to others. Who is full pokes those who are not.
create function wakeful.after_picking(
    report wakeful.claimed_job, pairs wakeful.steered_pair[], taken integer, want integer, pass_on boolean, worker_id uuid, tasks text[],
    since timestamptz) returns wakeful.claimed_job
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    more wakeful.steered_pair;
    patience integer;
begin
    if taken < want and report.held_back is not true then
        patience := case when taken > 0 then 0 else wakeful.minds_the_clock(
            after_picking.worker_id, array(select p.queue from unnest(pairs) p), tasks) end;
        if patience is not null then
            report.due_in := least(report.due_in, least(wakeful.next_gate(tasks, since),
                wakeful.next_room(pairs) + extract(epoch from at - since), wakeful.next_token(pairs, since)) + patience);
        end if;
    elsif want <= 0 or pass_on then
        foreach more in array wakeful.waiting_at_open_gates(pairs, at) loop
            perform wakeful.poke(more.queue, more.task, at, null, null, null);
        end loop;
    end if;
    return report;
end
$$;

-- The seconds until a rate on a whole task or queue allows a start that something waits for; null for none.
create function wakeful.next_token(pairs wakeful.steered_pair[], at timestamptz) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return (
        select min(wakeful.token_in(g.arrives_at, l.every, l.burst, next_token.at))
        from unnest(pairs) p
        cross join lateral (
            select p.task_gate as name, t.every, t.burst from wakeful.task_policy t where t.task = p.task and p.task_gate is not null
            union all
            select p.queue_gate, r.every, r.burst from wakeful.queue_policy r where r.queue = p.queue and p.queue_gate is not null
        ) l
        join wakeful.gate g on g.key = l.name
        where l.every is not null and wakeful.tokens(g.arrives_at, l.every, l.burst, next_token.at) <= 0
          and exists (
            select from wakeful.job j where j.queue = p.queue and j.task = p.task and j.state = 1 and j.limit_key is null and not j.suspect));
end
$$;

-- Half a second when jobs wait behind a breaker that lets a few through: one of those may end in a way that tells nobody. Null for
-- none.
create function wakeful.next_room(pairs wakeful.steered_pair[]) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return (
        select 0.5 from unnest(pairs) p
        join wakeful.breaker b on b.name = p.breaker and b.attentive and b.state <> 'open'
        cross join lateral (
            select j.id from wakeful.job j
            where j.queue = p.queue and j.task = p.task and j.state = 1 and j.limit_key is null and not j.suspect
            order by j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) w
        limit 1);
end
$$;

-- A pair in which jobs wait that nothing holds up, as far as can be seen without taking its gates.
create function wakeful.waiting_at_open_gates(pairs wakeful.steered_pair[], at timestamptz) returns wakeful.steered_pair[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return array(
        select p from unnest(pairs) p
        where not exists (
            select from wakeful.breaker b where b.name = p.breaker and (b.state = 'half_open' or b.probe_at > waiting_at_open_gates.at))
          and not exists (
            select from unnest(wakeful.gate_states(array_remove(array[p.task_gate], null), array[p.task], null, waiting_at_open_gates.at)
                || wakeful.gate_states(array_remove(array[p.queue_gate], null), null, array[p.queue], waiting_at_open_gates.at)) g
            where g.room <= 0)
          and (exists (
                select from wakeful.job j
                where j.queue = p.queue and j.task = p.task and j.state = 1 and j.limit_key is null and not j.suspect)
            or exists (select from wakeful.freed_slot f where f.task = p.task)
            or exists (select from wakeful.gate g where g.task = p.task and g.wake_at <= waiting_at_open_gates.at))
        limit 1);
end
$$;
