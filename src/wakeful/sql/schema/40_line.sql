-- The line: which ready jobs come first.
-- Promise: each (queue, task) pair is a range of the index of its own, so jobs of other tasks cost nothing however many
--   there are.
-- Locks: choose locks the rows that are to be taken, skipping locked ones; the others lock nothing.

-- A claimed job, or (id null, as the last row of a claim) the report: started_at is when the call began, due_in the number of seconds from
-- then until there is something to look for again, null when nothing is known of; suspects tells that jobs wait which must run
-- alone; cancelled are jobs of this worker that were asked to stop; refused are settlements that did not pass the fence; schedules
-- are those to be fired; held_back tells that more is in line for the next slot that comes free, but not to be held ready behind
-- busy ones.
create type wakeful.claimed_job as (
    id uuid, task text, queue text, payload jsonb, attempt integer, max_attempts integer, epoch bigint, rank smallint,
    ready_at timestamptz, run_at timestamptz, created_at timestamptz, started_at timestamptz, lease_expires_at timestamptz,
    expires_at timestamptz, correlation_id uuid, parent_id uuid, origin_id uuid, tenant text, created_by text,
    metadata jsonb, attempts jsonb, saved jsonb, due_in double precision, suspects boolean, cancelled uuid[], refused uuid[],
    schedules jsonb, held_back boolean
);

create type wakeful.position as (rank smallint, ready_at timestamptz, id uuid);

-- Locks up to `want` ready jobs, the first in line over the given queues and tasks, and returns where their rows are (which
-- holds until the transaction changes them). `after` holds a position for each queue: the scan starts behind it, and so does
-- not walk over index entries that vacuum could not remove yet. `suspects`: those that must run alone, and no others.
create function wakeful.choose(
    queues text[], tasks text[], want integer, after wakeful.position[], suspects boolean default false)
    returns tid[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    chosen tid[] := '{}';
    tids tid[];
    seen integer;
    last_rank smallint;
    last_ready_at timestamptz;
    last_id uuid;
begin
    if choose.suspects then
        -- They have an index of their own, and are few.
        return array(
            select s.tid
            from unnest(queues) q(queue)
            cross join unnest(tasks) t(task)
            cross join lateral (
                select j.ctid as tid from wakeful.job j
                where j.queue = q.queue and j.task = t.task and j.state = 1 and j.limit_key is null and j.suspect
                order by j.rank, j.ready_at, j.id
                limit choose.want
                for update skip locked
            ) s
            limit choose.want);
    end if;
    if cardinality(queues) = 1 and cardinality(tasks) = 1 then
        -- One range is in order already.
        return array(
            select j.ctid from wakeful.job j
            where j.queue = queues[1] and j.task = tasks[1] and j.state = 1 and j.limit_key is null and not j.suspect
              and (j.rank, coalesce(j.turn, j.ready_at), j.id) > (after[1].rank, after[1].ready_at, after[1].id)
            order by j.rank, coalesce(j.turn, j.ready_at), j.id
            limit choose.want
            for update skip locked);
    end if;
    loop
        with candidate as materialized (
            select c.tid, c.rank, c.ready_at, c.id
            from unnest(queues, after) q(queue, rank, ready_at, id)
            cross join unnest(tasks) t(task)
            cross join lateral (
                select j.ctid as tid, j.rank, coalesce(j.turn, j.ready_at) as ready_at, j.id
                from wakeful.job j
                where j.queue = q.queue and j.task = t.task and j.state = 1 and j.limit_key is null and not j.suspect
                  and (j.rank, coalesce(j.turn, j.ready_at), j.id) > (q.rank, q.ready_at, q.id)
                order by j.rank, coalesce(j.turn, j.ready_at), j.id
                limit choose.want
            ) c
            order by c.rank, c.ready_at, c.id
            limit choose.want
        )
        select array(select c.tid from candidate c), last.rank, last.ready_at, last.id
        into tids, last_rank, last_ready_at, last_id
        from (select) one left join (select c.rank, c.ready_at, c.id from candidate c offset choose.want - 1) last on true;
        seen := cardinality(tids);
        tids := array(
            select j.ctid from wakeful.job j
            where j.ctid = any (tids) and j.state + 0 = 1
            limit choose.want - cardinality(chosen)
            for update skip locked);
        chosen := chosen || tids;
        -- Rows that others have locked do not make the claim short: those behind them are looked at.
        exit when cardinality(chosen) = choose.want or seen < choose.want;
        after := array(
            select greatest(p, row(last_rank, last_ready_at, last_id)::wakeful.position) from unnest(after) p);
    end loop;
    return chosen;
end
$$;

-- A queue and task in which a job is in line behind `after`: one that someone else has locked, or that just came. Nulls
-- for none.
create function wakeful.some_ready(
    queues text[], tasks text[], after wakeful.position[], out queue text, out task text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    select q.queue, t.task into queue, task
    from unnest(queues, after) q(queue, rank, ready_at, id)
    cross join unnest(tasks) t(task)
    cross join lateral (
        select from wakeful.job j
        where j.queue = q.queue and j.task = t.task and j.state = 1 and j.limit_key is null and not j.suspect
          and (j.rank, coalesce(j.turn, j.ready_at), j.id) > (q.rank, q.ready_at, q.id)
        order by j.rank, coalesce(j.turn, j.ready_at), j.id
        limit 1) r
    limit 1;
end
$$;

-- Whether one is in line, and still is at the last of so many looks, two milliseconds apart: one that another claim has taken, and is
-- about to commit, is gone by then.
create function wakeful.stays_ready(queues text[], tasks text[], after wakeful.position[], looks integer) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    for look in 1..looks loop
        if (wakeful.some_ready(queues, tasks, after)).queue is null then
            return false;
        end if;
        perform pg_sleep(0.002) where look < looks;
    end loop;
    return true;
end
$$;

-- Whether a job of these queues and tasks waits that must run alone.
create function wakeful.suspects_wait(queues text[], tasks text[]) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    return exists (
        select from wakeful.job j where j.state = 1 and j.suspect and j.queue = any (queues) and j.task = any (tasks));
end
$$;

-- The pairs of queue and task that have live jobs waiting, found by skipping from one to the next in the index.
create function wakeful.waiting_pairs(out queue text, out task text) returns setof record
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    return query
    with recursive ready as (
        (select j.queue, j.task from wakeful.job j where j.state = 1 and j.limit_key is null order by j.queue, j.task limit 1)
        union all
        select n.queue, n.task from ready r cross join lateral (
            select j.queue, j.task from wakeful.job j
            where j.state = 1 and j.limit_key is null and (j.queue, j.task) > (r.queue, r.task) order by j.queue, j.task limit 1) n
    ), scheduled as (
        (select j.queue, j.task from wakeful.job j where j.state = 0 order by j.queue, j.task limit 1)
        union all
        select n.queue, n.task from scheduled s cross join lateral (
            select j.queue, j.task from wakeful.job j
            where j.state = 0 and (j.queue, j.task) > (s.queue, s.task) order by j.queue, j.task limit 1) n
    )
    select r.queue::text, r.task::text from ready r union select s.queue::text, s.task::text from scheduled s
    union
    -- Parked ones that may start.
    select p.queue::text, p.task::text
    from (select f.key from wakeful.freed_slot f union select g.key from wakeful.gate g where g.wake_at is not null) k
    cross join lateral (select j.queue, j.task from wakeful.job j where j.limit_key = k.key and j.state = 1 limit 1) p;
end
$$;
