-- Hindrances: breakers that are not closed, and limits that are full, for those who ask why a job waits.
-- Promise: facts as JSON. Where no breaker or limit can be declared, there is none; so each looks for its table first.
-- Locks: none.

-- All breakers, with since when each is as it is, and when an open one is tried again.
create function wakeful.breakers_told() returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    told jsonb := '[]';
begin
    if to_regclass('wakeful.breaker') is not null then
        select coalesce(jsonb_agg(jsonb_build_object('name', b.name, 'state', b.state,
            'since', case b.state when 'open' then b.opened_at when 'half_open' then b.half_opened_at end,
            'until', b.probe_at) order by b.name), '[]')
        into told from wakeful.breaker b;
    end if;
    return told;
end
$$;

-- The breakers that keep a job's task from starting.
create function wakeful.breakers_before(task text) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    told jsonb := '[]';
begin
    if to_regclass('wakeful.task_policy') is not null then
        select coalesce(jsonb_agg(b.one), '[]') into told
        from jsonb_array_elements(wakeful.breakers_told()) b(one)
        where b.one ->> 'state' <> 'closed' and b.one ->> 'name' in (
            select p.breaker from wakeful.task_policy p where p.task = breakers_before.task);
    end if;
    return told;
end
$$;

-- The limits on how many run at once that are full, with up to three of the jobs that hold them.
create function wakeful.full_limits(live wakeful.job) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    told jsonb := '[]';
begin
    if to_regclass('wakeful.task_policy') is not null and to_regclass('wakeful.queue_policy') is not null then
        select coalesce(jsonb_agg(jsonb_build_object('name', l.name, 'most', l.most, 'used', r.used, 'held_by', r.ids)), '[]')
        into told
        from (
            select 'task ' || p.task as name, p.concurrency as most, p.task as task, null as queue, null as tenant,
                null::text[] as key_path
            from wakeful.task_policy p where p.task = live.task and p.keyed_by is null
            union all
            select 'task ' || p.task || ' by ' || p.keyed_by, p.concurrency, p.task, null,
                case p.keyed_by when 'tenant' then live.tenant end, p.key_path
            from wakeful.task_policy p where p.task = live.task and p.keyed_by is not null
            union all
            select 'queue ' || q.queue, q.concurrency, null, q.queue, null, null
            from wakeful.queue_policy q where q.queue = live.queue
        ) l
        cross join lateral (
            select count(*) as used, (array_agg(j.id))[1:3] as ids from wakeful.job j
            where j.state = 2 and (l.task is null or j.task = l.task) and (l.queue is null or j.queue = l.queue)
              and (l.tenant is null or j.tenant = l.tenant)
              and (l.key_path is null or j.payload #>> l.key_path is not distinct from live.payload #>> l.key_path)
        ) r
        where r.used >= l.most;
    end if;
    return told;
end
$$;
