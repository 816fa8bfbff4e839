-- The forms of enqueue: for a person or any language (enqueue, enqueue_many), and for clients that send arrays.
-- Promise, locks: as in enqueue_set. Public signatures; they do not change within a major version.

-- One job, for clients that make their own ids. Returns null when it was inserted as asked, else [id, action] as
-- enqueue_set tells it. The usual job has nothing special about it, and goes in by one statement; any other goes the long
-- way, on which everything is looked at: a set costs a scan, a sort and a join, which one row need not pay.
-- With `alone`, by which the caller promises that the transaction ends with this call, a usual job that is due is handed to a sleeper that takes jobs.
-- The action `ahead` says that it was inserted and somebody woken for it, with the disk still to come: the caller promises by
-- `alone` that it then calls reach_disk_1 before it takes the job for enqueued. Nobody else knows of a job without a dedup_key whose id was
-- made just now, and a worker's claim, which is a later commit, reaches the disk before its handler starts, with all that came before it.
create function wakeful.enqueue_one_1(
    id uuid, task text, payload jsonb, queue text, priority integer, run_at timestamptz, delay interval,
    max_attempts integer, dedup_key text, dedup text, tenant text, correlation_id uuid, parent_id uuid, created_by text,
    metadata jsonb, expires_at timestamptz, default_off boolean, fresh boolean, poke boolean, alone boolean
) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off
as $$
#variable_conflict use_variable
declare
    at constant timestamptz := wakeful.now();
    into_queue constant text := coalesce(queue, 'default');
    looks constant boolean := poke and alone and current_setting('transaction_isolation') = 'read committed';
    sleepers uuid[];
    channel text;
    handed text;
    made record;
begin
    if looks then
        -- Taken before the look: see nobody_is_between.
        perform pg_advisory_xact_lock_shared(hashtextextended('wakeful.poke', 0));
        -- By chance, as in poke, but those first to whom jobs may be handed.
        select array_agg(w.worker_id), (array_agg(w.takes))[1] into sleepers, channel
        from (
            select s.worker_id, s.takes from (
                select s.worker_id, s.takes from wakeful.sleeper s where wakeful.hears_of(s, into_queue, task) order by s.worker_id) s
            order by s.takes is null, random() limit 2) w;
    end if;
    if channel is not null and coalesce(max_attempts, 5) > 1 and num_nonnulls(run_at, delay, expires_at, dedup_key, dedup, default_off) = 0
        and wakeful.is_young(id, fresh, at) and jsonb_typeof(payload) = 'object' and (metadata is null or jsonb_typeof(metadata) = 'object')
        and (parent_id is null or correlation_id is not null) and wakeful.begins_to_hand(sleepers[1])
    then
        handed := wakeful.told_of(id, task, into_queue, payload, coalesce(max_attempts, 5), wakeful.rank_of(priority), at,
            coalesce(correlation_id, id), parent_id, tenant, created_by, metadata);
        insert into wakeful.job (
            id, queue, task, state, rank, attempt, max_attempts, epoch, pokes, run_at, ready_at, started_at, lease_expires_at, created_at,
            updated_at, worker_id, correlation_id, parent_id, tenant, created_by, payload, metadata)
        select id, into_queue, task, 2, wakeful.rank_of(priority), 1, coalesce(max_attempts, 5), 1, false, at, at, at, at + wakeful.handed_lease(), at,
            at, sleepers[1], coalesce(correlation_id, id), parent_id, tenant, created_by, payload, metadata
        -- What NOTIFY carries is shorter than 8,000 bytes.
        where octet_length(handed) < 8000
            and not exists (select from wakeful.control c where c.paused or c.enqueuing is not null)
            and not exists (select from wakeful.task_policy p where p.task = enqueue_one_1.task)
            and not exists (select from wakeful.queue_policy r where r.queue = into_queue)
            -- It has confirmed what it was handed before, as can be seen behind the lock of begins_to_hand. (Leases that end later are longer ones.)
            and not exists (
                select from wakeful.job o
                where o.state = 2 and o.lease_expires_at > at and o.lease_expires_at <= wakeful.now() + wakeful.handed_lease()
                  and o.worker_id = sleepers[1])
        on conflict do nothing;
        if found then
            perform pg_notify(channel, handed);
            if cardinality(sleepers) > 1 then
                -- Should it not be taken up, another one looks when its lease is over.
                perform wakeful.poke_these(sleepers[2:], into_queue, at + wakeful.handed_lease(), null, null, null);
            end if;
            return null;
        end if;
    end if;
    insert into wakeful.job as made_job (
        id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at, expires_at, created_at, updated_at,
        correlation_id, parent_id, tenant, created_by, payload, metadata)
    select id, into_queue, task, case when j.due_at > at then 0 else 1 end, j.rank, coalesce(max_attempts, 5),
        poke and not alone and wakeful.speaks_first(into_queue, task, j.rank, case when j.due_at > at then j.due_at end), j.due_at,
        case when j.due_at <= at then at end, expires_at, at, at, coalesce(correlation_id, id), parent_id, tenant, created_by,
        payload, metadata
    from (select wakeful.rank_of(priority) as rank,
        coalesce(run_at, case when delay <= wakeful.longest() then at + delay end, at) as due_at offset 0) j
    where wakeful.is_young(id, fresh, at) and task is not null and jsonb_typeof(payload) = 'object'
        and (metadata is null or jsonb_typeof(metadata) = 'object')
        and dedup_key is null and dedup is null and default_off is not true
        and (run_at is null or delay is null) and (delay is null or delay between interval '0' and wakeful.longest())
        and wakeful.in_calendar(j.due_at) and (expires_at is null or wakeful.in_calendar(expires_at))
        and (parent_id is null or correlation_id is not null)
        and not exists (select from wakeful.control c where c.kind = 'task' and c.name = task and c.enqueuing is not null)
        and not exists (select from wakeful.queue_policy r where r.queue = into_queue)
    on conflict do nothing
    returning made_job.run_at, made_job.rank, made_job.ready_at into made;
    if not found then
        return (
            select jsonb_build_array(r.id, r.action)
            from wakeful.enqueue_set(array[row(1, enqueue_one_1.id, task, payload, queue, priority, run_at, delay, max_attempts,
                dedup_key, dedup, tenant, correlation_id, parent_id, created_by, metadata, expires_at,
                default_off)::wakeful.asked_job], fresh, poke, alone) r);
    elsif sleepers is not null or poke and alone and not looks then
        perform wakeful.poke_these(sleepers, into_queue, made.run_at, made.rank, made.ready_at, id);
        perform set_config('synchronous_commit', 'off', true);
        return jsonb_build_array(id, 'ahead');
    end if;
    return null;
end
$$;

-- Whether these jobs are there, live or over; answered when they are on disk, with all that was committed before, and on standbys that
-- commits wait for. The server may be another one than before, or the same after a crash: what it has lost is to be sent again. (A message
-- in the write-ahead log, which nobody reads, makes this a commit that waits.)
create function wakeful.reach_disk_1(ids uuid[]) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    missing uuid[];
begin
    perform pg_logical_emit_message(true, 'wakeful', '');
    missing := array(
        select i.id from unnest(ids) i(id) where not exists (select from wakeful.job j where j.id = i.id));
    -- A later statement: what has ended meanwhile is over by now.
    return missing = '{}' or cardinality(missing) is not distinct from cardinality(wakeful.ids_already_over(array(
        select jsonb_populate_record(null::wakeful.asked_job, jsonb_build_object('id', m.id)) from unnest(missing) m(id)),
        wakeful.now()));
end
$$;

-- One job. Returns its id; that of the live twin when dedup joined it to one (with a notice that says so); null when
-- enqueuing of the task is switched off.
create function wakeful.enqueue(
    task text, payload jsonb default '{}', id uuid default null, queue text default null, priority integer default null,
    run_at timestamptz default null, delay interval default null, max_attempts integer default null,
    dedup_key text default null, dedup text default null, tenant text default null, correlation_id uuid default null,
    parent_id uuid default null, created_by text default null, metadata jsonb default null,
    expires_at timestamptz default null, poke boolean default true
) returns uuid
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
    made constant uuid := coalesce(id, wakeful.new_id());
    otherwise constant jsonb := wakeful.enqueue_one_1(made, task, coalesce(payload, '{}'), queue, priority, run_at, delay,
        max_attempts, dedup_key, dedup, tenant, correlation_id, parent_id, created_by, metadata, expires_at, null, id is null,
        poke is not false, false);
begin
    if otherwise is null then
        return made;
    elsif otherwise ->> 1 in ('skipped', 'off') then
        raise notice 'wakeful: no job made for task % (%)', task, case otherwise ->> 1
            when 'off' then 'enqueuing of it is off' else 'job ' || (otherwise ->> 0) || ' has its dedup_key' end;
    end if;
    return (otherwise ->> 0)::uuid;
end
$$;

-- Many jobs, as a JSON array of objects whose keys are the options of enqueue. Returns their ids in order, and what was
-- done with each.
create function wakeful.enqueue_many(jobs jsonb, poke boolean default true)
    returns table (place integer, id uuid, action text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    known constant text[] := array['task', 'payload', 'id', 'queue', 'priority', 'run_at', 'delay', 'max_attempts', 'dedup_key',
        'dedup', 'tenant', 'correlation_id', 'parent_id', 'created_by', 'metadata', 'expires_at', 'default_off'];
begin
    if jsonb_typeof(jobs) is distinct from 'array' then
        perform wakeful.refuse('WF003', 'jobs is not a JSON array', 'Give an array of objects with at least a task.');
    end if;
    -- One look tells most arrays that all is well with them.
    if exists (select from jsonb_array_elements(jobs) j(job)
        where case jsonb_typeof(j.job) when 'object' then j.job - known <> '{}' else true end)
    then
        perform wakeful.refuse('WF003', format('job %s of the array is not an object', j.place), 'Give an object with at least a task.')
        from jsonb_array_elements(jobs) with ordinality j(job, place) where jsonb_typeof(j.job) <> 'object' limit 1;
        perform wakeful.refuse('WF003', format('job %s has an unknown option: %s', j.place, k.name), 'Use the options of wakeful.enqueue.')
        from jsonb_array_elements(jobs) with ordinality j(job, place) cross join lateral jsonb_object_keys(j.job) k(name)
        where k.name <> all (known) limit 1;
    end if;
    return query
    select e.place, e.id, e.action
    from wakeful.enqueue_rows(array(
        select row(o.place, coalesce((j.job ->> 'id')::uuid, wakeful.new_id()), r.task, coalesce(r.payload, '{}'), r.queue, r.priority,
            r.run_at, r.delay, r.max_attempts, r.dedup_key, r.dedup, r.tenant, r.correlation_id, r.parent_id,
            r.created_by, r.metadata, r.expires_at, r.default_off)::wakeful.asked_job
        from jsonb_array_elements(jobs) with ordinality j(job, place)
        cross join lateral (select j.place::integer as place) o
        cross join lateral jsonb_populate_record(null::wakeful.asked_job, j.job) r
        order by j.place), false, enqueue_many.poke is not false) e;
end
$$;

-- Many jobs, as arrays: one element stands for all rows, a null array for the default. Returns a row for each that was not
-- simply inserted, as enqueue_set does. The usual set, whose jobs are new, are to run now and differ in little but their payloads,
-- goes in by one statement; any other goes the long way, as in enqueue_one_1.
create function wakeful.enqueue_batch_1(
    ids uuid[], tasks text[], payloads text[],
    queues text[] default null, priorities integer[] default null, run_ats timestamptz[] default null,
    delays interval[] default null, max_attempts integer[] default null, dedup_keys text[] default null,
    dedups text[] default null, tenants text[] default null, correlation_ids uuid[] default null,
    parent_ids uuid[] default null, created_bys text[] default null, metadatas text[] default null,
    expires_ats timestamptz[] default null, default_offs boolean[] default null,
    fresh boolean default false, poke boolean default true, alone boolean default false
) returns table (place integer, id uuid, action text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
    at constant timestamptz := wakeful.now();
    -- Of the columns' types: what a name must be is looked at here, and not once more for each row.
    into_queue constant wakeful.queue_name := coalesce(queues[1], 'default');
    of_task constant wakeful.task_name := tasks[1];
    rank constant smallint := wakeful.rank_of(priorities[1]);
    inserted integer;
begin
    if fresh and num_nonnulls(run_ats, delays, dedup_keys, dedups, parent_ids, default_offs) = 0
        and 1 >= greatest(cardinality(tasks), cardinality(queues), cardinality(priorities), cardinality(max_attempts),
            cardinality(created_bys), cardinality(expires_ats))
        and wakeful.in_calendar(expires_ats[1]) is not false
        and cardinality(ids) >= greatest(cardinality(payloads), cardinality(tenants), cardinality(correlation_ids),
            cardinality(metadatas))
    then
        insert into wakeful.job (
            id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at, expires_at, created_at, updated_at,
            correlation_id, tenant, created_by, payload, metadata)
        select u.id, into_queue, of_task, 1, rank, coalesce(max_attempts[1], 5), said.it and u.id = ids[1], at, at,
            expires_ats[1], at, at,
            coalesce(case when cardinality(correlation_ids) = 1 then correlation_ids[1] else u.correlation_id end, u.id),
            case when cardinality(tenants) = 1 then tenants[1] else u.tenant end, created_bys[1], u.payload::jsonb,
            case when cardinality(metadatas) = 1 then metadatas[1] else u.metadata end::jsonb
        from (
            select poke and not alone and wakeful.speaks_first(into_queue, of_task, rank, null) as it
            where wakeful.is_young(ids[1], fresh, at)
                and not exists (
                    select from wakeful.control c where c.kind = 'task' and c.name = of_task and c.enqueuing is not null)
                and not exists (select from wakeful.queue_policy r where r.queue = into_queue)
            offset 0) said
        cross join unnest(ids, payloads, tenants, correlation_ids, metadatas) u(id, payload, tenant, correlation_id, metadata)
        where u.id is not null and of_task is not null and u.payload is not null
        on conflict do nothing;
        get diagnostics inserted = row_count;
        if inserted = cardinality(ids) then
            perform wakeful.poke(into_queue, of_task, at, rank, at, ids[1]) where poke and alone;
            return;
        elsif inserted > 0 then
            -- One was not as fresh as was said, or cannot be stored: all of them go the long way.
            delete from wakeful.job j where j.id = any (ids) and j.created_at = at;
        end if;
    end if;
    return query
    select e.place, e.id, e.action
    from wakeful.enqueue_set(array(
        select row(u.place::integer, u.id,
            case when cardinality(tasks) = 1 then tasks[1] else u.task end, u.payload::jsonb,
            case when cardinality(queues) = 1 then queues[1] else u.queue end,
            case when cardinality(priorities) = 1 then priorities[1] else u.priority end,
            case when cardinality(run_ats) = 1 then run_ats[1] else u.run_at end,
            case when cardinality(delays) = 1 then delays[1] else u.delay end,
            case when cardinality(max_attempts) = 1 then max_attempts[1] else u.starts end,
            case when cardinality(dedup_keys) = 1 then dedup_keys[1] else u.dedup_key end,
            case when cardinality(dedups) = 1 then dedups[1] else u.dedup end,
            case when cardinality(tenants) = 1 then tenants[1] else u.tenant end,
            case when cardinality(correlation_ids) = 1 then correlation_ids[1] else u.correlation_id end,
            case when cardinality(parent_ids) = 1 then parent_ids[1] else u.parent_id end,
            case when cardinality(created_bys) = 1 then created_bys[1] else u.created_by end,
            case when cardinality(metadatas) = 1 then metadatas[1] else u.metadata end::jsonb,
            case when cardinality(expires_ats) = 1 then expires_ats[1] else u.expires_at end,
            case when cardinality(default_offs) = 1 then default_offs[1] else u.default_off end)::wakeful.asked_job
        from unnest(ids, tasks, payloads, queues, priorities, run_ats, delays, max_attempts, dedup_keys, dedups, tenants,
            correlation_ids, parent_ids, created_bys, metadatas, expires_ats, default_offs) with ordinality
            u(id, task, payload, queue, priority, run_at, delay, starts, dedup_key, dedup, tenant, correlation_id,
              parent_id, created_by, metadata, expires_at, default_off, place)), fresh, poke, alone) e;
end
$$;
