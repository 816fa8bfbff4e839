-- Finding jobs: a page of those that are meant, the newest ids first.
-- Promise: reads no more of history than it must. Live, finished and dead jobs are searched apart, each by its own index,
--   and only what is shown is put together; a page goes on behind the last id of the page before. Nothing is counted.
-- Parameters: null asks for nothing. error is a code or part of a message; payload is contained in the job's payload;
--   since and before are about the creation, younger and older the same as ages; after is the last id that was shown.
-- Locks: none.
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
#variable_conflict use_column
declare
    numbers constant smallint[] := (
        select array_agg(n::smallint) from generate_series(0, 5) n
        where find_jobs.states is null or wakeful.state_name(n::smallint) = any (find_jobs.states));
    first constant timestamptz := greatest(find_jobs.since, wakeful.now() - find_jobs.younger);
    last constant timestamptz := least(find_jobs.before, wakeful.now() - find_jobs.older);
    ids uuid[];
begin
    ids := array(
        select found.id from (
            (select j.id from wakeful.job j
            where numbers && array[0, 1, 2]::smallint[] and j.state = any (numbers)
              and (find_jobs.task is null or j.task = find_jobs.task)
              and (find_jobs.queue is null or j.queue = find_jobs.queue)
              and (find_jobs.tenant is null or j.tenant = find_jobs.tenant)
              and (find_jobs.correlation_id is null or j.correlation_id = find_jobs.correlation_id)
              and (find_jobs.error is null or wakeful.is_error(wakeful.last_error(j.attempts), find_jobs.error))
              and (find_jobs.payload is null or j.payload @> find_jobs.payload)
              and (first is null or j.created_at >= first) and (last is null or j.created_at < last)
              and (find_jobs.after is null or j.id < find_jobs.after)
            order by j.id desc limit find_jobs.most)
            union all
            (select f.id from wakeful.finished_job f
            where numbers && array[3, 5]::smallint[] and f.state = any (numbers)
              and (find_jobs.task is null or f.task = find_jobs.task)
              and (find_jobs.queue is null or f.queue = find_jobs.queue)
              and (find_jobs.tenant is null or f.tenant = find_jobs.tenant)
              and (find_jobs.correlation_id is null or f.correlation_id = find_jobs.correlation_id)
              and (find_jobs.error is null or wakeful.is_error(wakeful.last_error(f.attempts), find_jobs.error))
              and (find_jobs.payload is null or f.payload @> find_jobs.payload)
              -- What was created since then finished since then: whole days need not be read.
              and (first is null or f.created_at >= first and f.finished_at >= first)
              and (last is null or f.created_at < last)
              and (find_jobs.after is null or f.id < find_jobs.after)
            order by f.id desc limit find_jobs.most)
            union all
            (select d.id from wakeful.dead_letter d
            where numbers && array[4]::smallint[]
              and (find_jobs.task is null or d.task = find_jobs.task)
              and (find_jobs.queue is null or d.queue = find_jobs.queue)
              and (find_jobs.tenant is null or d.tenant = find_jobs.tenant)
              and (find_jobs.correlation_id is null or d.correlation_id = find_jobs.correlation_id)
              and (find_jobs.error is null or wakeful.is_error(
                jsonb_build_object('code', d.error_code, 'message', d.error_message), find_jobs.error))
              and (find_jobs.payload is null or d.original_job -> 'payload' @> find_jobs.payload)
              and (first is null or (d.original_job ->> 'created_at')::timestamptz >= first and d.died_at >= first)
              and (last is null or (d.original_job ->> 'created_at')::timestamptz < last)
              and (find_jobs.after is null or d.id < find_jobs.after)
            order by d.id desc limit find_jobs.most)
        ) found
        order by found.id desc limit find_jobs.most);
    return query select v.* from wakeful.jobs v where v.id = any (ids) order by v.id desc;
end
$$;

-- Whether an error has this code, or this text in its message, in upper or lower case.
create function wakeful.is_error(entry jsonb, wanted text) returns boolean
    language sql immutable parallel safe
    return entry ->> 'code' = wanted or pg_catalog.strpos(lower(entry ->> 'message'), lower(wanted)) > 0;
