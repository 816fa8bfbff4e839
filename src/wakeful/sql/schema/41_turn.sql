-- Fair turns: in a fair queue the tenants take turns, each by its weight, however many jobs one of them has.
-- Promise: one stored place in line (`turn`) for each job, given when it becomes ready: behind the last one of its tenant that waits, and not
--   before the point that the queue has come to. Nobody is locked for it: two producers who enqueue for one tenant at the same
--   moment may give a turn twice. Turns are times on a clock of the queue's own, which a claim moves on; they say nothing of
--   real time.
-- Locks: none in a producer's transaction; a claim moves the queue's clock unless someone else is doing so.

-- The turns of jobs that become ready in this order; null where their queue is not fair.
create function wakeful.turns(queues text[], tenants text[], ranks smallint[]) returns timestamptz[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    if not exists (select from wakeful.queue_policy r where r.fair and r.queue = any (queues)) then
        return null;
    end if;
    return array(
        with asked as materialized (
            select a.queue, coalesce(a.tenant, '') as tenant, a.rank, a.place,
                row_number() over (partition by a.queue, a.tenant, a.rank order by a.place) as nth
            from unnest(queues, tenants, ranks) with ordinality a(queue, tenant, rank, place)
        ), line as materialized (
            select l.queue, l.tenant, l.rank, s.step,
                greatest(coalesce(c.turn, '2000-01-01 00:00:00+00'), coalesce(last.turn + s.step, '2000-01-01 00:00:00+00')) as start
            from (select distinct a.queue, a.tenant, a.rank from asked a) l
            join wakeful.queue_policy r on r.queue = l.queue and r.fair
            cross join lateral (
                select interval '1 millisecond' / coalesce((r.weights ->> l.tenant)::double precision, 1) as step) s
            left join wakeful.fair_clock c on c.queue = l.queue and c.rank = l.rank
            left join lateral (
                select j.turn from wakeful.job j
                where j.queue = l.queue and coalesce(j.tenant::text, '') = l.tenant and j.rank = l.rank and j.state = 1
                  and j.turn is not null
                order by j.turn desc limit 1) last on true
        )
        select l.start + (a.nth - 1) * l.step
        from asked a left join line l on l.queue = a.queue and l.tenant = a.tenant and l.rank = a.rank
        order by a.place);
end
$$;

-- The turns of asked jobs; null when none of their queues is fair.
create function wakeful.turns_of(jobs wakeful.asked_job[]) returns timestamptz[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from wakeful.queue_policy r where r.fair) then
        return null;
    end if;
    return wakeful.turns(
        array(select coalesce(j.queue, 'default') from unnest(jobs) j), array(select j.tenant from unnest(jobs) j),
        array(select wakeful.rank_of(j.priority) from unnest(jobs) j));
end
$$;

-- Gives ready jobs their turns: such as were scheduled, or waited in line before their queue became fair. The rows are the caller's.
create function wakeful.give_turns(ids uuid[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    jobs wakeful.job[];
    given timestamptz[];
begin
    if not exists (select from wakeful.queue_policy r where r.fair) then
        return;
    end if;
    jobs := array(select j from wakeful.job j where j.id = any (ids) order by j.ready_at, j.id);
    given := wakeful.turns(array(select j.queue::text from unnest(jobs) j), array(select j.tenant::text from unnest(jobs) j),
        array(select j.rank from unnest(jobs) j));
    update wakeful.job j set turn = g.turn
    from (
        select r.id, t.turn
        from (select j.id, row_number() over () as place from unnest(jobs) j) r
        join unnest(given) with ordinality t(turn, place) on t.place = r.place
    ) g
    where j.id = any (ids) and j.id = g.id and j.turn is distinct from g.turn;
end
$$;

-- Gives turns to jobs in line of fair queues that have none: they ran, or were being enqueued, when their queue became fair. By their real
-- time they stand behind all others, where a look finds them, and would wait for as long as others come.
create function wakeful.give_missing_turns(queues text[], tasks text[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    ids uuid[];
begin
    if not exists (select from wakeful.queue_policy r where r.fair) then
        return;
    end if;
    ids := array(
        select h.id
        from unnest(queues) q(queue)
        join wakeful.queue_policy r on r.queue = q.queue and r.fair
        cross join unnest(tasks) t(task)
        cross join lateral unnest(wakeful.ranks_in(q.queue, t.task)) k(rank)
        cross join lateral (
            select j.id from wakeful.job j
            where j.queue = q.queue and j.task = t.task and j.state = 1 and j.limit_key is null and j.rank = k.rank
              -- Turns are counted from the year 2000 on, a thousand a second.
              and coalesce(j.turn, j.ready_at) > '2010-01-01 00:00:00+00' and j.turn is null
            order by coalesce(j.turn, j.ready_at), j.id limit 1000 for update skip locked
        ) h);
    if ids <> '{}' then
        perform wakeful.give_turns(ids);
    end if;
end
$$;

-- Moves the clocks of fair queues on to the turns that have been taken.
create function wakeful.advance_turns(picks wakeful.pick[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    reached record;
begin
    for reached in
        select p.queue, p.line_rank as rank, max(p.turn) as turn from unnest(picks) p where p.turn is not null
        group by p.queue, p.line_rank order by 1, 2
    loop
        perform from wakeful.fair_clock c where c.queue = reached.queue and c.rank = reached.rank for update skip locked;
        if found then
            update wakeful.fair_clock c set turn = reached.turn
            where c.queue = reached.queue and c.rank = reached.rank and c.turn < reached.turn;
        -- Two who begin several clocks, each in an order of its own, would wait for each other.
        elsif not exists (select from wakeful.fair_clock c where c.queue = reached.queue and c.rank = reached.rank)
            and pg_try_advisory_xact_lock(hashtextextended('wakeful.clocks', 0))
        then
            insert into wakeful.fair_clock (queue, rank, turn) values (reached.queue, reached.rank, reached.turn)
            on conflict on constraint fair_clock_pkey do nothing;
        end if;
    end loop;
end
$$;
