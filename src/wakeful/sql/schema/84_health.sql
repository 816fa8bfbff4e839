-- Health: what someone asks who is called at three in the morning, and what PostgreSQL itself knows of our tables.
-- Promise: facts only, as JSON; what is too much or too old is the reader's to say. Nothing finished is counted, and of
--   what waits only the heads of the lines are read, so that the answer comes as fast from a full queue as from an empty one.
-- Locks: none.

-- Since when the longest-waiting of the ready jobs that are first in line, of each queue and task, waits; found by skipping from
-- one (queue, task, rank) to the next in the index. What is parked behind a limit of its own is not in line.
create function wakeful.oldest_ready(out queue text, out task text, out id uuid, out ready_at timestamptz) returns setof record
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    with recursive head as (
        (select j.queue, j.task, j.rank, j.ready_at, j.id from wakeful.job j where j.state = 1 and j.limit_key is null
        order by j.queue, j.task, j.rank, coalesce(j.turn, j.ready_at), j.id limit 1)
        union all
        select n.* from head h cross join lateral (
            select j.queue, j.task, j.rank, j.ready_at, j.id from wakeful.job j
            where j.state = 1 and j.limit_key is null and (j.queue, j.task, j.rank) > (h.queue, h.task, h.rank)
            order by j.queue, j.task, j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) n
    )
    select distinct on (h.queue, h.task) h.queue::text, h.task::text, h.id, h.ready_at
    from head h order by h.queue, h.task, h.ready_at;
end
$$;

-- stuck_after: how long a job may run, though its lease is renewed, before it is told of.
create function wakeful.health(stuck_after interval default '1 hour') returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    breakers constant jsonb := wakeful.breakers_told();
    answer jsonb;
begin
    if health.stuck_after is null or health.stuck_after <= interval '0' then
        perform wakeful.refuse('WF003', 'stuck_after is missing or not positive', 'Give an interval such as 1 hour.');
    end if;
    with ready as materialized (
        select r.queue, r.task, r.id, r.ready_at,
            exists (select from wakeful.control c where c.paused
                and (c.kind, c.name) in (('queue', r.queue), ('task', r.task))) as paused,
            exists (select from wakeful.worker w where w.lease_expires_at > at and r.task = any (w.tasks)
                and (w.queues is null or r.queue = any (w.queues)))
            or exists (select from wakeful.sleeper s where s.until > at and (s.queues is null or r.queue = any (s.queues))
                and (s.tasks is null or r.task = any (s.tasks))) as served
        from wakeful.oldest_ready() r
    ), oldest as (
        select r.* from ready r where not r.paused order by r.ready_at limit 1
    )
    select jsonb_build_object(
        'at', at,
        'schema_version', (select max(m.version) from wakeful.migration m),
        'workers_alive', (select count(*) from wakeful.worker w where w.lease_expires_at > at),
        'workers_lapsed', (select count(*) from wakeful.worker w where w.lease_expires_at <= at),
        'workers_degraded', (select coalesce(jsonb_agg(w.name order by w.name), '[]') from wakeful.worker w
            where w.lease_expires_at > at and w.details ->> 'listener' in ('deaf', 'lost')),
        'jobs_wait', exists (select from ready),
        'oldest_ready', (select jsonb_build_object('id', o.id, 'task', o.task, 'queue', o.queue,
            'seconds', greatest(0, extract(epoch from at - o.ready_at))) from oldest o),
        'dead_unacknowledged', (select count(*) from (select from wakeful.dead_letter d where not d.acknowledged limit 10001) d),
        'stuck', (select coalesce(jsonb_agg(s order by s.since), '[]') from (
            select j.id, j.task::text as task, j.queue::text as queue, j.started_at as since, w.name as worker
            from wakeful.job j left join wakeful.worker w on w.id = j.worker_id
            where j.state = 2 and j.started_at < at - least(health.stuck_after, wakeful.longest()) order by j.started_at limit 20) s),
        'orphans', (select coalesce(jsonb_agg(jsonb_build_object('task', r.task, 'queue', r.queue,
            'seconds', greatest(0, extract(epoch from at - r.ready_at))) order by r.ready_at), '[]')
            from ready r where not r.served),
        'breakers', breakers,
        'breakers_open', (select coalesce(jsonb_agg(b.one), '[]') from jsonb_array_elements(breakers) b(one)
            where b.one ->> 'state' <> 'closed'),
        'alerts', (select coalesce(jsonb_agg(jsonb_build_object('rule', a.rule, 'subject', a.subject, 'number', a.number,
            'threshold', a.threshold, 'since', a.fired_at) order by a.id), '[]') from wakeful.alert a where a.cleared_at is null),
        'paused', (select coalesce(jsonb_agg(jsonb_build_object('kind', c.kind, 'name', c.name, 'by', c.changed_by,
            'since', c.changed_at, 'reason', c.reason) order by c.kind, c.name), '[]') from wakeful.control c where c.paused))
    into answer;
    return answer;
end
$$;

-- How many jobs of each task are ready and run, and for how long the oldest ready one waits.
create function wakeful.depths()
    returns table (task text, ready bigint, running bigint, oldest_seconds double precision)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
begin
    return query
    select j.task::text, count(*) filter (where j.state = 1), count(*) filter (where j.state = 2),
        coalesce(greatest(0, date_part('epoch', at - min(j.ready_at) filter (where j.state = 1))), 0)
    from wakeful.job j where j.state in (1, 2) group by j.task;
end
$$;

-- What PostgreSQL knows: our tables' dead rows and last vacuum, who holds the oldest snapshot, how full the NOTIFY queue
-- is, how many connections are left.
create function wakeful.vitals() returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    answer jsonb;
begin
    with holder as (
        select a.pid, a.usename, a.application_name, a.state, a.client_addr, a.xact_start, left(a.query, 200) as query,
            extract(epoch from wakeful.now() - a.xact_start) as seconds
        from pg_stat_activity a
        -- Those of other databases hold back nothing here, nor do those that are still connecting and have none yet.
        where a.backend_xmin is not null and a.pid <> pg_backend_pid() and a.xact_start is not null
          and a.datname = current_database() and a.backend_type <> 'autovacuum worker'
        order by age(a.backend_xmin) desc, a.xact_start limit 1
    )
    select jsonb_build_object(
        'at', wakeful.now(),
        'oldest_snapshot', (select to_jsonb(h) from holder h),
        'prepared', (select coalesce(jsonb_agg(jsonb_build_object('gid', p.gid, 'since', p.prepared, 'owner', p.owner)), '[]')
            from pg_prepared_xacts p),
        'slots', (select coalesce(jsonb_agg(jsonb_build_object('name', s.slot_name, 'active', s.active, 'age', age(s.xmin))), '[]')
            from pg_replication_slots s where s.xmin is not null),
        'notify_queue', pg_notification_queue_usage(),
        'connections', (select count(*) from pg_stat_activity a where a.backend_type = 'client backend'),
        'max_connections', current_setting('max_connections')::integer
            - current_setting('superuser_reserved_connections')::integer,
        'tables', (select coalesce(jsonb_object_agg(s.relname, jsonb_build_object('live', s.n_live_tup, 'dead', s.n_dead_tup,
            'bytes', pg_table_size(s.relid), 'index_bytes', pg_indexes_size(s.relid),
            'vacuumed_at', greatest(s.last_vacuum, s.last_autovacuum),
            'autovacuum', coalesce((select o.option_value from pg_options_to_table(c.reloptions) o
                where o.option_name = 'autovacuum_enabled'), 'on'))), '{}')
            from pg_stat_all_tables s join pg_class c on c.oid = s.relid
            where s.schemaname = 'wakeful' and not c.relispartition))
    into answer;
    return answer;
end
$$;

-- What a worker has to tell of itself: laid over what it told before. Called seldom, when something has changed.
create function wakeful.tell_1(worker_id uuid, details jsonb) returns void
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
begin atomic
    update wakeful.worker w set details = coalesce(w.details, '{}') || tell_1.details where w.id = tell_1.worker_id;
end;
