-- Schedules at work: which are due, and the jobs of their slots.
-- Promise: one job a slot, over any number of workers and restarts: whoever fires hands in the last slot that it computed
--   from, and the slots are taken only if that is still the last one. The job is inserted in the same transaction. Nobody leads.
-- Locks: fire_1 takes rows of schedule in the order of their names, then those of enqueue; it waits half a second at most.

-- The due schedules of these tasks, as a JSON array with all that is needed to compute slots; null for none. A schedule that
-- code declares is fired only by workers whose code does.
create function wakeful.due_schedules(worker_id uuid, tasks text[]) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    at constant timestamptz := wakeful.now();
begin
    return (
        select jsonb_agg(jsonb_build_object('name', d.name, 'cron', d.cron,
            'every', (extract(epoch from d.every) * 1000000)::bigint, 'tz', d.tz, 'misfire', d.misfire, 'cap', d.cap,
            'anchor', d.anchor, 'since', d.since, 'last_slot', d.last_slot, 'revision', d.revision, 'now', at))
        from (
            select s.* from unnest(due_schedules.tasks) t(task) cross join lateral (
                select s.* from wakeful.schedule s
                where s.task = t.task and not s.paused and s.next_at <= at
                  and (s.source = 'runtime' or exists (
                    select from wakeful.worker w where w.id = due_schedules.worker_id and w.details -> 'schedules' ? s.name))
                order by s.next_at limit 100
            ) s
            limit 100
        ) d);
end
$$;

-- The seconds from `since` on until the next slot of these tasks comes; null for none. Always later than `since`, as in next_due.
create function wakeful.next_slot_in(tasks text[], since timestamptz) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return (
        select extract(epoch from min(d.next_at) - next_slot_in.since)
        from unnest(next_slot_in.tasks) t(task) cross join lateral (
            select s.next_at from wakeful.schedule s
            where s.task = t.task and not s.paused and s.next_at > next_slot_in.since and s.next_at < 'infinity'
            order by s.next_at limit 1
        ) d);
end
$$;

-- The job of a schedule, as it is asked for. No slot: one that somebody wants now.
create function wakeful.asked_by_schedule(schedule wakeful.schedule, slot timestamptz, place integer) returns wakeful.asked_job
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    -- A slot is written the same way whoever fires it.
    set timezone = 'UTC'
as $$
begin
    return jsonb_populate_record(null::wakeful.asked_job, schedule.options || jsonb_build_object(
        'place', place, 'id', wakeful.new_id(), 'task', schedule.task, 'queue', schedule.queue, 'payload', schedule.payload,
        'run_at', slot, 'metadata', coalesce(schedule.options -> 'metadata', '{}')
            || jsonb_strip_nulls(jsonb_build_object('schedule', schedule.name, 'slot', slot))));
end
$$;

-- Takes slots and makes their jobs. Each firing has name, revision, last_slot (as it was read), slots (none: only the next
-- is to be noted) and next_slot (null: none will come). Answers for each: fired, with the newest job; lost, when the schedule
-- was fired or changed by another meanwhile; busy, when someone holds what it needs, or, with the reason, when its queue is full; failed,
-- with the reason: its job cannot be, and its slots are passed over.
create function wakeful.fire_1(firings jsonb) returns table (name text, answer text, job_id uuid, jobs integer, problem text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
    firing record;
begin
    for firing in
        select f.name, f.revision, f.last_slot, f.slots, f.next_slot
        from jsonb_to_recordset(firings) f(
            name text, revision bigint, last_slot timestamptz, slots timestamptz[], next_slot timestamptz)
        order by f.name
    loop
        name := firing.name;
        job_id := null;
        jobs := 0;
        problem := null;
        begin
            select f.answer, f.job_id, f.jobs into answer, job_id, jobs
            from wakeful.fire_schedule(firing.name, firing.revision, firing.last_slot, firing.slots, firing.next_slot) f;
        exception
            when lock_not_available then
                answer := 'busy';
            when sqlstate 'WF008' then
                -- Its queue is full: the slot waits until there is room.
                answer := 'busy';
                problem := sqlerrm;
            when check_violation or data_exception or not_null_violation or sqlstate 'WF002' or sqlstate 'WF003' then
                answer := 'failed';
                problem := sqlerrm;
                update wakeful.schedule s
                set last_slot = coalesce(firing.slots[cardinality(firing.slots)], s.last_slot),
                    next_at = coalesce(firing.next_slot, 'infinity')
                where s.name = firing.name and s.revision = firing.revision
                  and s.last_slot is not distinct from firing.last_slot;
        end;
        return next;
    end loop;
end
$$;

-- One firing of fire_1.
create function wakeful.fire_schedule(
    name text, revision bigint, expected timestamptz, slots timestamptz[], next_slot timestamptz,
    out answer text, out job_id uuid, out jobs integer) returns record
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_variable
declare
    fired wakeful.schedule;
begin
    jobs := 0;
    update wakeful.schedule s
    set last_slot = coalesce((select max(t.slot) from unnest(slots) t(slot)), s.last_slot), next_at = coalesce(next_slot, 'infinity')
    where s.name = fire_schedule.name and s.revision = fire_schedule.revision
      and s.last_slot is not distinct from expected
      -- Not as the index of those that are due has it, or a planner that knows of none would walk through that.
      and s.paused::integer = 0 and s.next_at <= wakeful.now()
      -- Never early, whatever a worker's clock says, and never twice.
      and not exists (select from unnest(slots) t(slot) where t.slot > wakeful.now() or t.slot <= s.last_slot)
    returning s.* into fired;
    if not found then
        answer := 'lost';
        return;
    end if;
    answer := 'fired';
    if cardinality(slots) > 0 then
        select count(e.id), (array_agg(e.id order by e.place desc))[1] into jobs, job_id
        from wakeful.enqueue_rows(array(
            select wakeful.asked_by_schedule(fired, t.slot, t.place::integer)
            from unnest(slots) with ordinality t(slot, place) order by t.place), true, true) e;
        update wakeful.schedule s set last_job_id = coalesce(job_id, s.last_job_id) where s.name = fire_schedule.name;
    end if;
end
$$;

-- What a worker's code declares, as a JSON array. A definition replaces the stored one if its version is higher, or the same
-- and it is not among those that were replaced already: so a worker of the last deploy does not undo what the new one brought.
-- Answers for each: new, changed, same, older (the stored one is kept) or taken (someone made it at run time).
create function wakeful.declare_schedules_1(definitions jsonb) returns table (name text, answer text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    asked record;
    there wakeful.schedule;
    at constant timestamptz := wakeful.now();
begin
    for asked in
        select d.* from jsonb_to_recordset(definitions) d(
            name text, task text, queue text, payload jsonb, options jsonb, cron text, every interval, tz text,
            misfire text, cap integer, version integer, digest text)
        order by d.name
    loop
        name := asked.name;
        insert into wakeful.schedule as s (name, task, queue, payload, options, cron, every, tz, misfire, cap, source, version,
            digest, anchor, since, created_at, changed_at, changed_by)
        values (asked.name, asked.task, asked.queue, asked.payload, asked.options, asked.cron, asked.every, asked.tz,
            asked.misfire, asked.cap, 'code', asked.version, asked.digest, at, at, at, at, session_user)
        on conflict on constraint schedule_pkey do nothing;
        if found then
            answer := 'new';
            return next;
            continue;
        end if;
        select s.* into there from wakeful.schedule s where s.name = asked.name for update;
        answer := case
            when there.name is null then 'older'
            when there.source = 'runtime' then 'taken'
            when asked.version < there.version then 'older'
            when asked.digest = there.digest and asked.version = there.version then 'same'
            when asked.version = there.version and asked.digest = any (there.superseded) then 'older'
            else 'changed' end;
        if answer = 'changed' then
            perform wakeful.replace_schedule(there, jsonb_populate_record(there, to_jsonb(asked)), at, session_user);
        end if;
        return next;
    end loop;
end
$$;

-- Writes a changed definition. Where the times change, counting begins anew; else the next slot stays what it is.
create function wakeful.replace_schedule(old wakeful.schedule, new wakeful.schedule, at timestamptz, actor text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    moved constant boolean := (old.cron, old.every, old.tz) is distinct from (new.cron, new.every, new.tz);
begin
    update wakeful.schedule s
    set task = new.task, queue = new.queue, payload = new.payload, options = new.options, cron = new.cron, every = new.every,
        tz = new.tz, misfire = new.misfire, cap = new.cap, version = new.version, digest = new.digest,
        -- The newest hundred; of an older version none can come back.
        superseded = case when new.version > old.version then '{}'
            else (old.superseded || array_remove(array[old.digest], null))[greatest(1, cardinality(old.superseded) - 98):] end,
        revision = s.revision + 1, changed_at = at, changed_by = actor,
        anchor = case when moved then at else s.anchor end, since = case when moved then at else s.since end,
        next_at = case when moved then '-infinity' else s.next_at end
    where s.name = old.name;
end
$$;
