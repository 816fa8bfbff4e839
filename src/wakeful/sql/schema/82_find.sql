-- Finding jobs: a page of those that are meant, the newest ids first.
-- Promise: reads no more of history than it must, and for no longer than it may. Live, finished and dead jobs are walked side by
--   side, each down its index of ids, a portion at a time; a page goes on behind the last id of the page before. Nothing is counted.
-- Parameters: null asks for nothing. error is a code or part of a message; payload is contained in the job's payload;
--   since and before are about the creation, younger and older the same as ages; after is the last id that was shown.
-- Locks: none.

-- The ids of a page. patience: how long to search (null: to the end). `reached` is the id where that ended, null if it did not: all that
-- is newer has been looked at, and who goes on, goes on behind it. Each portion is a snapshot of its own, unless the transaction's is one.
create function wakeful.search_jobs(
    states text[] default null, task text default null, queue text default null, tenant text default null,
    correlation_id uuid default null, error text default null, payload jsonb default null, since timestamptz default null,
    before timestamptz default null, younger interval default null, older interval default null, after uuid default null,
    most integer default 50, patience interval default null)
    returns table (ids uuid[], reached uuid)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_custom_plan
    set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    until constant timestamptz := wakeful.now() + search_jobs.patience;
    numbers constant smallint[] := (
        select array_agg(n::smallint) from generate_series(0, 5) n
        where search_jobs.states is null or wakeful.state_name(n::smallint) = any (search_jobs.states));
    first constant timestamptz := greatest(search_jobs.since, wakeful.now() - search_jobs.younger);
    last constant timestamptz := least(search_jobs.before, wakeful.now() - search_jobs.older);
    -- Of live, finished and dead jobs: the last id that was looked at (null: none yet), and whether no more are left.
    looked uuid[] := array[search_jobs.after, search_jobs.after, search_jobs.after];
    begun boolean[] := array[false, false, false];
    over boolean[] := array[
        not coalesce(numbers && array[0, 1, 2]::smallint[], false), not coalesce(numbers && array[3, 5]::smallint[], false),
        not coalesce(numbers && array[4]::smallint[], false)];
    portions integer[] := array[search_jobs.most, search_jobs.most, search_jobs.most];
    portion integer;
    place integer;
    -- Of a correlation's finished jobs, which an index knows, the next.
    among uuid[];
    walked uuid[];
    met uuid[];
begin
    ids := '{}';
    if search_jobs.most is null or search_jobs.most < 1 then
        return next;
        return;
    end if;
    loop
        -- Whichever lags behind is next: what all have passed is known.
        place := (
            select n from generate_series(1, 3) n where not over[n] order by begun[n], looked[n] desc nulls first, n limit 1);
        exit when place is null;
        if begun[place] then
            exit when (select count(*) from unnest(ids) i where i >= looked[place]) >= search_jobs.most;
            if wakeful.now() >= until then
                reached := looked[place];
                exit;
            end if;
        end if;
        portion := portions[place];
        if place = 1 then
            select array_agg(c.id), array_agg(c.id) filter (where c.state = any (numbers)
              and (search_jobs.task is null or c.task = search_jobs.task)
              and (search_jobs.queue is null or c.queue = search_jobs.queue)
              and (search_jobs.tenant is null or c.tenant = search_jobs.tenant)
              and (search_jobs.correlation_id is null or c.correlation_id = search_jobs.correlation_id)
              and (search_jobs.error is null or wakeful.is_error(wakeful.last_error(c.attempts), search_jobs.error))
              and (search_jobs.payload is null or c.payload @> search_jobs.payload)
              and (first is null or c.created_at >= first) and (last is null or c.created_at < last))
            into walked, met from (
                -- Few run, and an index knows them, however many wait.
                select j.* from wakeful.job j
                where (numbers <> array[2]::smallint[] or j.state = 2) and (looked[1] is null or j.id < looked[1])
                order by j.id desc limit portion) c;
        elsif place = 2 then
            if search_jobs.correlation_id is not null then
                among := array(
                    select u.id from (
                        (select f.id from wakeful.finished_job f
                        where f.correlation_id = search_jobs.correlation_id and f.correlation_id <> f.id
                          and (looked[2] is null or f.id < looked[2]) order by f.id desc limit portion)
                        union all
                        (select f.id from wakeful.finished_job f
                        where f.id = search_jobs.correlation_id and (looked[2] is null or f.id < looked[2]))
                    ) u order by u.id desc limit portion);
            end if;
            select array_agg(c.id), array_agg(c.id) filter (where c.state = any (numbers)
              and (search_jobs.task is null or c.task = search_jobs.task)
              and (search_jobs.queue is null or c.queue = search_jobs.queue)
              and (search_jobs.tenant is null or c.tenant = search_jobs.tenant)
              and (search_jobs.correlation_id is null or c.correlation_id = search_jobs.correlation_id)
              and (search_jobs.error is null or wakeful.is_error(wakeful.last_error(c.attempts), search_jobs.error))
              and (search_jobs.payload is null or c.payload @> search_jobs.payload)
              and (first is null or c.created_at >= first) and (last is null or c.created_at < last))
            into walked, met from (
                -- What was created since then finished since then: whole days need not be read.
                select f.* from wakeful.finished_job f
                where (among is null or f.id = any (among)) and (first is null or f.finished_at >= first)
                  and (looked[2] is null or f.id < looked[2]) order by f.id desc limit portion) c;
            walked := coalesce(among, walked);
        else
            select array_agg(c.id), array_agg(c.id) filter (where (search_jobs.task is null or c.task = search_jobs.task)
              and (search_jobs.queue is null or c.queue = search_jobs.queue)
              and (search_jobs.tenant is null or c.tenant = search_jobs.tenant)
              and (search_jobs.correlation_id is null or c.correlation_id = search_jobs.correlation_id)
              and (search_jobs.error is null or wakeful.is_error(
                jsonb_build_object('code', c.error_code, 'message', c.error_message), search_jobs.error))
              and (search_jobs.payload is null or c.original_job -> 'payload' @> search_jobs.payload)
              and (first is null or (c.original_job ->> 'created_at')::timestamptz >= first)
              and (last is null or (c.original_job ->> 'created_at')::timestamptz < last))
            into walked, met from (
                select d.* from wakeful.dead_letter d where looked[3] is null or d.id < looked[3]
                order by d.id desc limit portion) c;
        end if;
        begun[place] := true;
        over[place] := coalesce(cardinality(walked), 0) < portion;
        looked[place] := coalesce(walked[cardinality(walked)], looked[place]);
        ids := ids || coalesce(met, '{}');
        portions[place] := least(portion * 4, greatest(search_jobs.most, 5000));
    end loop;
    -- A job that was settled meanwhile may have been met twice.
    ids := array(
        select distinct i.id from unnest(ids) i(id) where reached is null or i.id >= reached order by i.id desc
        limit search_jobs.most);
    if cardinality(ids) = search_jobs.most then
        reached := null;
    end if;
    return next;
end
$$;

-- The jobs of a page, however long it takes.
create function wakeful.find_jobs(
    states text[] default null, task text default null, queue text default null, tenant text default null,
    correlation_id uuid default null, error text default null, payload jsonb default null, since timestamptz default null,
    before timestamptz default null, younger interval default null, older interval default null, after uuid default null,
    most integer default 50)
    returns setof wakeful.jobs
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_custom_plan
    set jit = off
as $$
declare
    page constant uuid[] := (
        select s.ids from wakeful.search_jobs(states, task, queue, tenant, correlation_id, error, payload, since, before, younger,
            older, after, most) s);
begin
    return query select v.* from wakeful.jobs v where v.id = any (page) order by v.id desc;
end
$$;

-- Whether an error has this code, or this text in its message, in upper or lower case.
create function wakeful.is_error(entry jsonb, wanted text) returns boolean
    language sql immutable parallel safe
    return entry ->> 'code' = wanted or pg_catalog.strpos(lower(entry ->> 'message'), lower(wanted)) > 0;
