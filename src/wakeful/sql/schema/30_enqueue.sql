-- Enqueue: how a job comes into being.
-- Promise: after the caller's COMMIT the job exists exactly once. An id that is live, finished or dead already makes no
--   second job. A row with a dedup_key joins its live twin by the mode asked for; the unique index decides, not a look
--   beforehand, so a transaction that loses to one which then rolls back still ends with one job.
-- Locks: inserts in (task, dedup_key) order; waits only for a foreign transaction that holds the same dedup_key or id.

-- One job as it is asked for; null stands for the default.
create type wakeful.asked_job as (
    place integer, id uuid, task text, payload jsonb, queue text, priority integer, run_at timestamptz, delay interval,
    max_attempts integer, dedup_key text, dedup text, tenant text, correlation_id uuid, parent_id uuid, created_by text,
    metadata jsonb, expires_at timestamptz, default_off boolean
);

-- Enqueues a set of asked jobs. `fresh` says that the ids were made a moment ago and were never sent before, which
-- spares the look into history; `alone` that the transaction ends with this call, so that who sleeps can be looked up at once.
-- Returns a row for each that was not simply inserted: its place, the id that stands for it (null
-- when enqueuing of its task is off), and what was done: resent, skipped, replaced, debounced, rerun or off.
create function wakeful.enqueue_set(jobs wakeful.asked_job[], fresh boolean, poke boolean, alone boolean default false)
    returns table (place integer, id uuid, action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    first constant uuid := jobs[1].id;
    wanted wakeful.asked_job[] := jobs;
    any_wrong boolean;
    any_off boolean;
    any_steered boolean;
    speakers integer[];
    inserted integer;
    over uuid[];
begin
    -- One look tells most sets that there is nothing special about them.
    select bool_or(wakeful.asks_wrongly(j)),
        bool_or(j.default_off) or exists (select from wakeful.control c where c.kind = 'task' and c.enqueuing is not null),
        exists (select from wakeful.queue_policy)
    into any_wrong, any_off, any_steered from unnest(jobs) j;
    if any_off then
        wanted := wakeful.without_switched_off(jobs);
        return query select j.place, null::uuid, 'off' from unnest(jobs) j
            where not exists (select from unnest(wanted) w where w.place = j.place);
    end if;
    if any_wrong then
        perform wakeful.check_asked(wanted);
    end if;
    if any_steered then
        perform wakeful.refuse_when_full(wanted);
    end if;
    if enqueue_set.poke and not alone then
        speakers := wakeful.speakers(wanted, at);
    end if;

    inserted := wakeful.insert_asked(wanted, speakers, at);
    -- Fresh ids are young, the first is the oldest; such as arrive late are looked for all the same. A later statement, hence
    -- a later snapshot: it sees a twin that finished while the insert waited for it.
    if not wakeful.is_young(first, fresh, at) then
        over := wakeful.ids_already_over(wanted, at);
        delete from wakeful.job j where over is not null and j.id = any (over) and j.created_at = at;
    end if;
    if inserted < cardinality(wanted) or over is not null then
        return query select * from wakeful.join_twins(wanted, coalesce(over, '{}'), poke, at) t where t.action <> 'inserted';
    elsif alone and enqueue_set.poke then
        perform wakeful.poke_best(wanted, at);
    end if;
end
$$;

-- The same, with an answer for each, in their order.
create function wakeful.enqueue_rows(jobs wakeful.asked_job[], fresh boolean, poke boolean)
    returns table (place integer, id uuid, action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select j.place, case when e.place is null then j.id else e.id end, coalesce(e.action, 'inserted')
    from unnest(jobs) j left join wakeful.enqueue_set(jobs, fresh, poke) e on e.place = j.place
    order by j.place;
end
$$;

-- Whether an id that is said to be fresh looks it: a UUIDv7 of this quarter of a second.
create function wakeful.is_young(id uuid, fresh boolean, at timestamptz) returns boolean
    language sql stable
    return fresh and substr(id::text, 15, 1) = '7'
        and ('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint
            between extract(epoch from at) * 1000 - 250 and extract(epoch from at) * 1000 + 250;

-- Inserts the jobs that meet no conflict and returns how many those were. `speakers` are the places that carry the poke.
create function wakeful.insert_asked(jobs wakeful.asked_job[], speakers integer[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    turns constant timestamptz[] := wakeful.turns_of(jobs);
    inserted integer;
begin
    insert into wakeful.job (
        id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at, expires_at, created_at, updated_at,
        correlation_id, parent_id, dedup_key, tenant, created_by, payload, metadata, turn)
    select j.id, coalesce(j.queue, 'default'), j.task, case when due.at > insert_asked.at then 0 else 1 end,
        wakeful.rank_of(j.priority), coalesce(j.max_attempts, 5), coalesce(j.place = any (speakers), false), due.at,
        case when due.at > insert_asked.at then null else insert_asked.at end, j.expires_at, insert_asked.at, insert_asked.at,
        coalesce(j.correlation_id, case when j.parent_id is not null then wakeful.correlation_of(j.parent_id) end, j.id), j.parent_id, j.dedup_key, j.tenant,
        j.created_by, j.payload, j.metadata, case when due.at <= insert_asked.at then turns[j.ordinality] end
    from unnest(jobs) with ordinality j
    cross join lateral (select coalesce(j.run_at, insert_asked.at + j.delay, insert_asked.at) as at) due
    order by case when j.dedup_key is not null then j.task end, j.dedup_key, j.place
    on conflict do nothing;
    get diagnostics inserted = row_count;
    return inserted;
end
$$;

-- The rank of a priority. One that is out of range stays so, for the table to refuse it.
create function wakeful.rank_of(priority integer) returns smallint
    language sql immutable parallel safe
    return (-greatest(-101, least(101, coalesce(priority, 0))))::smallint;

-- Whether no row can hold this.
create function wakeful.asks_wrongly(job wakeful.asked_job) returns boolean
    language sql immutable
    return job.id is null or job.task is null or job.payload is null
        or jsonb_typeof(job.payload) <> 'object' or jsonb_typeof(job.metadata) <> 'object'
        or job.delay < interval '0' or job.delay > wakeful.longest() or job.delay is not null and job.run_at is not null
        or not wakeful.in_calendar(job.run_at) or not wakeful.in_calendar(job.expires_at)
        or job.dedup not in ('skip', 'raise', 'replace', 'debounce', 'rerun')
        or job.dedup is not null and job.dedup_key is null;

-- Refuses what no row can hold, with a sentence that names the option.
create function wakeful.check_asked(jobs wakeful.asked_job[]) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    select j.* into bad from unnest(jobs) j where wakeful.asks_wrongly(j) limit 1;
    if not found then
        return;
    elsif bad.task is null or bad.payload is null or bad.id is null then
        perform wakeful.refuse('WF003', 'a job needs an id, a task and a payload', 'Give all three; an empty payload is {}.');
    elsif jsonb_typeof(bad.payload) <> 'object' or jsonb_typeof(bad.metadata) <> 'object' then
        perform wakeful.refuse('WF003', case when jsonb_typeof(bad.payload) <> 'object' then 'payload is ' || jsonb_typeof(bad.payload)
            else 'metadata is ' || jsonb_typeof(bad.metadata) end || ', not a JSON object', 'Give an object such as {"id": 7}.');
    elsif bad.delay < interval '0' then
        perform wakeful.refuse('WF003', format('delay %s is negative', bad.delay), 'Give a delay of zero or more.');
    elsif bad.delay > wakeful.longest() then
        perform wakeful.refuse('WF003', format('delay %s is longer than %s', bad.delay, wakeful.longest()), 'Give a time that comes.');
    elsif bad.delay is not null and bad.run_at is not null then
        perform wakeful.refuse('WF003', 'both delay and run_at are given', 'Give one of them.');
    elsif not wakeful.in_calendar(bad.run_at) then
        perform wakeful.refuse('WF003', format('run_at %s is infinite, or not within the years 1 to 9999', bad.run_at),
            'Give a time that comes.');
    elsif not wakeful.in_calendar(bad.expires_at) then
        perform wakeful.refuse('WF003', format('expires_at %s is infinite, or not within the years 1 to 9999', bad.expires_at),
            'Give a time that comes; none at all for a job that does not expire.');
    elsif bad.dedup_key is null then
        perform wakeful.refuse('WF003', format('dedup %s is given without a dedup_key', bad.dedup), 'Give a dedup_key too.');
    end if;
    perform wakeful.refuse('WF003', format('dedup %s is not known', bad.dedup),
        'Use skip, raise, replace, debounce or rerun.');
end
$$;

-- What is left when the tasks are taken out that someone switched off, or that are off until switched on.
create function wakeful.without_switched_off(jobs wakeful.asked_job[]) returns wakeful.asked_job[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select j from unnest(jobs) j
        left join wakeful.control c on c.kind = 'task' and c.name = j.task
        where coalesce(c.enqueuing, not j.default_off, true)
        order by j.place);
end
$$;

-- The places of the rows that carry the poke: for each queue and task the ready one of the best rank, else the one due
-- first. (In plpgsql, whose plans are kept; a query in a function of language sql is planned at every call.)
create function wakeful.speakers(jobs wakeful.asked_job[], at timestamptz) returns integer[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality(jobs) = 1 then
        return case when wakeful.speaks_first(coalesce(jobs[1].queue, 'default'), jobs[1].task,
            wakeful.rank_of(jobs[1].priority),
            nullif(greatest(coalesce(jobs[1].run_at, at + jobs[1].delay, at), at), at)) then array[jobs[1].place] end;
    end if;
    return array(
        select q.place from (
            select distinct on (r.queue, r.task) r.queue, r.task, r.place, r.rank, r.due_at
            from (
                select coalesce(j.queue, 'default') as queue, j.task, j.place, wakeful.rank_of(j.priority) as rank,
                    nullif(greatest(coalesce(j.run_at, speakers.at + j.delay, speakers.at), speakers.at), speakers.at) as due_at
                from unnest(jobs) j
            ) r
            order by r.queue, r.task, r.due_at nulls first, r.rank, r.place
        ) q
        where wakeful.speaks_first(q.queue, q.task, q.rank, q.due_at));
end
$$;

-- A child without a correlation id of its own takes its parent's, if the parent is still live.
create function wakeful.correlation_of(parent_id uuid) returns uuid
    language sql stable
    set search_path = pg_catalog, pg_temp
    return (select j.correlation_id from wakeful.job j where j.id = correlation_of.parent_id);

-- When a UUIDv7 was made; -infinity for any other id.
create function wakeful.id_time(id uuid) returns timestamptz
    language sql immutable parallel safe strict
    return case when substr(id::text, 15, 1) = '7'
        then to_timestamp(('x0000' || translate(left(id::text, 13), '-', ''))::bit(64)::bigint / 1000.0)
        else '-infinity'::timestamptz end;

-- The ids of these jobs that are finished or dead already; null for none. A job is over only after its id was made, so
-- a UUIDv7 needs the partitions since that day alone.
create function wakeful.ids_already_over(jobs wakeful.asked_job[], at timestamptz) returns uuid[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    made timestamptz;
    ids uuid[];
begin
    select array_agg(j.id), min(wakeful.id_time(j.id)) into ids, made from unnest(jobs) j;
    -- A client's clock may be wrong by a day; one that is ahead of ours tells nothing.
    made := case when made > at then '-infinity' else made - interval '1 day' end;
    return (
        select array_agg(o.id) from (
            select f.id from wakeful.finished_job f where f.id = any (ids) and f.finished_at >= made
            union all
            select d.id from wakeful.dead_letter d where d.id = any (ids)
        ) o);
end
$$;

-- Refuses jobs for a queue that has as many waiting as it may. Up to a thousand are counted each time; beyond that the last count serves
-- for a quarter of a second, so that a long line does not slow down who joins it.
create function wakeful.refuse_when_full(jobs wakeful.asked_job[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    asked record;
    pending bigint;
begin
    for asked in
        select r.queue, r.max_pending, count(*) as jobs
        from unnest(jobs) j join wakeful.queue_policy r on r.queue = coalesce(j.queue, 'default')
        where r.max_pending is not null group by r.queue, r.max_pending order by r.queue
    loop
        pending := wakeful.pending(asked.queue, asked.max_pending);
        if pending + asked.jobs > asked.max_pending then
            perform wakeful.refuse('WF008',
                format('queue %s has %s jobs waiting and may have %s', asked.queue, pending, asked.max_pending),
                'Try again later, or let it have more.',
                jsonb_build_object('queue', asked.queue, 'pending', pending, 'max_pending', asked.max_pending));
        end if;
    end loop;
end
$$;

-- How many jobs of a queue wait: scheduled, in line, or parked behind a limit; each kind is counted no further than `most`.
create function wakeful.pending(queue text, most integer) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    at constant timestamptz := wakeful.now();
    waiting bigint;
begin
    if most > 1000 then
        select d.pending into waiting from wakeful.queue_depth d where d.queue = pending.queue and d.counted_at > at - interval '250 milliseconds';
        if found then
            return waiting;
        end if;
    end if;
    waiting := (select count(*) from (select from wakeful.job j where j.queue = pending.queue and j.state = 1 and j.limit_key is null limit most + 1) j)
        + (select count(*) from (select from wakeful.job j where j.queue = pending.queue and j.state = 1 and j.limit_key is not null limit most + 1) j)
        + (select count(*) from (select from wakeful.job j where j.queue = pending.queue and j.state = 0 limit most + 1) j);
    if most > 1000 then
        -- Whoever holds the row is counting too: nobody waits for it.
        perform from wakeful.queue_depth d where d.queue = pending.queue for update skip locked;
        if found then
            update wakeful.queue_depth d set pending = waiting, counted_at = at where d.queue = pending.queue;
        end if;
    end if;
    return waiting;
end
$$;
