-- Tend: what time brings about. Due jobs become ready, late ones are cancelled, jobs of the dead are taken back.
-- Promise: idempotent; whoever comes first does it, and rows that someone holds are left for the next call.
-- Locks: rows it changes, skipping locked ones; a lapsed worker's own row, so that its claims and its rescue exclude
--   each other.

-- Makes up to `most` due jobs of these queues and tasks ready, behind what is in line already; returns how many.
create function wakeful.promote(queues text[], tasks text[], most integer default 1000) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    ids uuid[];
begin
    select array(
        select d.id
        from unnest(queues) q(queue)
        cross join unnest(tasks) t(task)
        cross join lateral (
            select j.id from wakeful.job j
            where j.queue = q.queue and j.task = t.task and j.state = 0 and j.run_at <= at
            order by j.run_at, j.id
            limit most
            for update skip locked
        ) d
        limit most)
    into ids;
    if ids = '{}' then
        return 0;
    end if;
    update wakeful.job j set state = 1, ready_at = at, updated_at = at where j.id = any (ids);
    perform wakeful.give_turns(ids);
    return cardinality(ids);
end
$$;

-- Cancels those of the given rows that were not started by their expires_at.
create function wakeful.expire_rows(ids uuid[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return wakeful.retire_cancelled(array(
        select row(l.id, 'expired', null, 'expired', null, null, true)::wakeful.ended_attempt
        from (
            select j.id from wakeful.job j
            where j.id = any (ids) and j.state + 0 < 2 and j.expires_at <= expire_rows.at
            order by j.id for update skip locked
        ) l), at);
end
$$;

-- Cancels up to `most` waiting jobs whose expires_at has passed; returns how many.
create function wakeful.expire(most integer default 1000) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    at constant timestamptz := wakeful.now();
    ids constant uuid[] := array(
        select j.id from wakeful.job j
        where j.expires_at is not null and j.expires_at <= at and j.state + 0 < 2
        order by j.expires_at limit most);
begin
    return case when ids = '{}' then 0 else wakeful.expire_rows(ids, at) end;
end
$$;

-- Takes back up to `most` jobs whose lease, or whose worker's lease, has lapsed: each becomes ready again, or dead if
-- that was its last start, or cancelled if that was asked for. Returns how many. `spare` is a worker in the middle of a
-- claim: its lease held when the claim began, and its row must outlive what it is about to take.
create function wakeful.rescue(most integer default 1000, spare uuid default null) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    lapsed wakeful.worker;
    ids uuid[];
    held integer;
    rescued integer := 0;
begin
    ids := array(
        select j.id from wakeful.job j
        where j.state = 2 and j.lease_expires_at is not null and j.lease_expires_at <= at
        order by j.lease_expires_at, j.id limit most for update skip locked);
    if ids <> '{}' then
        update wakeful.worker w set taken_back_at = at
        where w.id in (
            select w.id from wakeful.worker w
            where w.id in (select j.worker_id from wakeful.job j where j.id = any (ids)) order by w.id for no key update skip locked);
        -- Who did not take up what it was handed is handed no more, until it says that it takes jobs.
        update wakeful.sleeper s set takes = null
        where s.worker_id in (
            select s.worker_id from wakeful.sleeper s
            where s.takes is not null and s.worker_id in (select j.worker_id from wakeful.job j where j.id = any (ids))
            order by s.worker_id for update skip locked);
    end if;
    rescued := wakeful.end_lapsed(ids, at);
    for lapsed in
        select w.* from wakeful.worker w
        where w.lease_expires_at <= at and w.id is distinct from rescue.spare order by w.id for update skip locked
    loop
        exit when rescued >= most;
        -- Its jobs with a lease of their own live by that one.
        ids := array(
            select j.id from wakeful.job j
            where j.state = 2 and j.worker_id = lapsed.id and j.lease_expires_at is null
            limit most - rescued for update skip locked);
        -- Held ones count too, and such as were taken back since it was last heard of: alone means that nothing else ran there.
        held := (select count(*) from wakeful.job j where j.state = 2 and j.worker_id = lapsed.id);
        if held > cardinality(ids) then
            update wakeful.worker w set taken_back_at = at where w.id = lapsed.id;
        end if;
        rescued := rescued + wakeful.end_crashed(ids, held = 1 and coalesce(lapsed.taken_back_at <= lapsed.beat_at, true),
            pg_postmaster_start_time() > lapsed.beat_at, at);
        delete from wakeful.sleeper s where s.worker_id = lapsed.id;
        delete from wakeful.worker w where w.id = lapsed.id and not exists (
            select from wakeful.job j where j.state = 2 and j.worker_id = lapsed.id and j.lease_expires_at is null);
    end loop;
    return rescued;
end
$$;

-- The seconds from `since` on until the next job of these queues and tasks is due or loses its lease, or a worker loses its own; null
-- when there is none. Always later than `since`, when the caller began to look for what is due: that may have come already.
create function wakeful.next_due(queues text[], tasks text[], since timestamptz) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    scheduled timestamptz;
    leased timestamptz;
    worker_leased timestamptz;
begin
    select min(d.run_at) into scheduled
    from unnest(queues) q(queue)
    cross join unnest(tasks) t(task)
    cross join lateral (
        select j.run_at from wakeful.job j
        where j.queue = q.queue and j.task = t.task and j.state = 0 and j.run_at > since
        order by j.run_at, j.id limit 1
    ) d;
    select j.lease_expires_at into leased from wakeful.job j
    where j.state = 2 and j.lease_expires_at is not null and j.lease_expires_at > since
    order by j.lease_expires_at limit 1;
    -- Who holds nothing has nothing to be rescued: as long as it renews in time nobody need wake for it between two pulses.
    select min(w.lease_expires_at + case when exists (
            select from wakeful.job j where j.state = 2 and j.worker_id = w.id) then interval '0' else interval '20 seconds' end)
    into worker_leased from wakeful.worker w where w.lease_expires_at > since;
    return extract(epoch from least(scheduled, leased, worker_leased) - since);
end
$$;

-- How many seconds after its moment this worker sees to what falls due in its queues and tasks; null if it leaves that to others, so
-- that one due job does not wake a fleet. Of those alive who serve as much, the two with the least ids see to it at once; should both
-- have died a moment ago, the next two do so a second later, and two more behind them. Who is not on the list does so at once.
create function wakeful.minds_the_clock(worker_id uuid, queues text[], tasks text[]) returns integer
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select case when count(*) < 6 then count(*) / 2 end from wakeful.worker w
        where w.id < minds_the_clock.worker_id and w.lease_expires_at > wakeful.now()
          and (w.queues is null or w.queues @> minds_the_clock.queues) and w.tasks @> minds_the_clock.tasks);
end
$$;

-- Folds the deltas into the tally. One folder at a time; the others have nothing to do.
create function wakeful.fold_tally() returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    folded integer;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('wakeful.tally', 0)) then
        return 0;
    end if;
    with delta as (
        delete from wakeful.tally_delta d returning d.day, d.task, d.state, d.jobs
    ), summed as (
        select d.day, d.task, d.state, sum(d.jobs) as jobs from delta d group by d.day, d.task, d.state order by 1, 2, 3
    )
    insert into wakeful.tally as t (day, task, state, jobs)
    select s.day, s.task, s.state, s.jobs from summed s
    on conflict (day, task, state) do update set jobs = t.jobs + excluded.jobs;
    get diagnostics folded = row_count;
    delete from wakeful.tally t where t.jobs = 0;
    return folded;
end
$$;
