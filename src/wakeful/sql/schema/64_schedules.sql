-- Schedules by hand: made, changed, paused, resumed, run and removed while workers run. Each act leaves an audit row.
-- Promise: it holds from the commit on; workers are woken to compute the next slot. What was due while a schedule was paused is
--   not made up for. Whether a cron line can be read is found out by the client, or else by the worker, which says so.
-- Locks: the schedule's row.
create function wakeful.add_schedule(
    name text, task text, cron text default null, every interval default null, payload jsonb default '{}',
    tz text default 'UTC', misfire text default 'latest', cap integer default 100, queue text default null,
    options jsonb default '{}', actor text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    at constant timestamptz := wakeful.now();
begin
    perform wakeful.check_schedule(name, task, cron, every, payload, misfire, cap);
    perform wakeful.check_schedule_options(options);
    insert into wakeful.schedule (name, task, queue, payload, options, cron, every, tz, misfire, cap, source, anchor, since,
        created_at, changed_at, changed_by)
    values (name, task, queue, coalesce(payload, '{}'), coalesce(options, '{}'), cron, every, coalesce(tz, 'UTC'),
        coalesce(misfire, 'latest'), coalesce(cap, 100), 'runtime', at, at, at, at, coalesce(actor, session_user::text))
    on conflict on constraint schedule_pkey do nothing;
    if not found then
        perform wakeful.refuse('WF005', format('there is a schedule %s already', name), 'Change it, or choose another name.');
    end if;
    perform wakeful.note_schedule('add', name, actor, null);
end
$$;

-- Refuses what no schedule can be; null stands for the default where there is one.
create function wakeful.check_schedule(name text, task text, cron text, every interval, payload jsonb, misfire text, cap integer)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform wakeful.check_name('schedule', name);
    perform wakeful.check_name('task of schedule ' || name, task);
    if (cron is null) = (every is null) then
        perform wakeful.refuse('WF003', format('schedule %s has %s', name,
            case when cron is null then 'neither cron nor every' else 'both cron and every' end), 'Give one of them.');
    elsif btrim(cron) = '' then
        perform wakeful.refuse('WF003', format('cron of schedule %s is empty', name), 'Give a line such as */5 * * * *.');
    elsif not every between interval '1 second' and wakeful.longest() then
        perform wakeful.refuse('WF003', format('every %s is shorter than a second, or longer than %s', every, wakeful.longest()),
            'Give an interval such as 5 minutes.');
    elsif jsonb_typeof(payload) <> 'object' then
        perform wakeful.refuse('WF003', format('payload is %s, not a JSON object', jsonb_typeof(payload)), 'Give an object such as {"id": 7}.');
    elsif misfire not in ('latest', 'skip', 'all') then
        perform wakeful.refuse('WF003', format('misfire %s is not known', misfire), 'Use latest, skip or all.');
    elsif not cap between 1 and 1000 then
        perform wakeful.refuse('WF003', format('cap %s is not from 1 to 1000', cap), 'Give a number such as 100.');
    end if;
end
$$;

-- What options a schedule's jobs may have; times are the schedule's own, and one that is refused cannot be told to anyone.
create function wakeful.check_schedule_options(options jsonb) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(options) <> 'object' then
        perform wakeful.refuse('WF003', 'options is not a JSON object', 'Give an object such as {"priority": 5}.');
    end if;
    perform wakeful.refuse('WF003', format('%s is no option of a schedule', k.name),
        'Use priority, max_attempts, dedup_key, dedup, tenant, created_by and metadata.')
    from jsonb_object_keys(options) k(name)
    where k.name not in ('priority', 'max_attempts', 'dedup_key', 'dedup', 'tenant', 'created_by', 'metadata', 'default_off')
    limit 1;
    if options ->> 'dedup' not in ('skip', 'replace', 'debounce', 'rerun') then
        perform wakeful.refuse('WF003', format('dedup %s is not for schedules', options ->> 'dedup'),
            'Use skip, replace, debounce or rerun.');
    elsif not wakeful.is_number_within(options -> 'priority', -100, 100) or not wakeful.is_number_within(options -> 'max_attempts', 1, 10000)
    then
        perform wakeful.refuse('WF003', 'priority is not from -100 to 100, or max_attempts not from 1 to 10000', 'Give whole numbers.');
    elsif jsonb_typeof(options -> 'metadata') not in ('object', 'null') then
        perform wakeful.refuse('WF003', 'metadata is not a JSON object', 'Give an object such as {"source": "nightly"}.');
    end if;
end
$$;

-- Whether a JSON value, if there is one, is a whole number from `low` to `high`.
create function wakeful.is_number_within(value jsonb, low integer, high integer) returns boolean
    language sql immutable parallel safe
    return case coalesce(pg_catalog.jsonb_typeof(value), 'null') when 'null' then true
        when 'number' then value::numeric between low and high and value::numeric = trunc(value::numeric) else false end;

-- Wakes the workers, and keeps who did what.
create function wakeful.note_schedule(act text, name text, actor text, details jsonb) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform wakeful.note_act(note_schedule.act, null, note_schedule.actor,
        jsonb_build_object('kind', 'schedule', 'name', note_schedule.name) || coalesce(note_schedule.details, '{}'));
    perform pg_notify('wakeful', '{"look": true}');
end
$$;

-- The schedule's row, locked; WF005 when there is none.
create function wakeful.schedule_of(name text) returns wakeful.schedule
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    wanted wakeful.schedule;
begin
    select s.* into wanted from wakeful.schedule s where s.name = schedule_of.name for update;
    if not found then
        perform wakeful.refuse('WF005', format('there is no schedule %s', schedule_of.name),
            'List them with: wakeful schedules list.');
    end if;
    return wanted;
end
$$;

-- Changes what the JSON object names: task, queue, payload, options (those that are given), cron, every, tz, misfire, cap. Code that declares the
-- schedule as it was does not undo this; code that declares it otherwise does.
create function wakeful.change_schedule(name text, changes jsonb, actor text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    old constant wakeful.schedule := wakeful.schedule_of(name);
    wanted jsonb := changes;
    changed jsonb;
begin
    if jsonb_typeof(changes) is distinct from 'object' then
        perform wakeful.refuse('WF003', 'changes is not a JSON object', 'Give an object such as {"cron": "*/5 * * * *"}.');
    end if;
    perform wakeful.refuse('WF003', format('%s is nothing that a schedule has', k.name),
        'Change task, queue, payload, options, cron, every, tz, misfire or cap.')
    from jsonb_object_keys(changes) k(name)
    where k.name not in ('task', 'queue', 'payload', 'options', 'cron', 'every', 'tz', 'misfire', 'cap') limit 1;
    perform wakeful.refuse('WF003', format('%s cannot be null', c.key), 'Leave it out, or give it a value.')
    from jsonb_each(changes) c
    where c.value = 'null' and c.key in ('task', 'payload', 'options', 'tz', 'misfire', 'cap') limit 1;
    perform wakeful.check_schedule_options(changes -> 'options');
    if changes ->> 'cron' is not null and changes ->> 'every' is not null then
        perform wakeful.refuse('WF003', 'both cron and every are given', 'Give one of them.');
    elsif changes ->> 'cron' is not null then
        wanted := wanted || '{"every": null}';
    elsif changes ->> 'every' is not null then
        wanted := wanted || '{"cron": null}';
    end if;
    if changes ? 'options' then
        wanted := wanted || jsonb_build_object('options', old.options || (changes -> 'options'));
    end if;
    changed := to_jsonb(old) || wanted;
    perform wakeful.check_schedule(name, changed ->> 'task', changed ->> 'cron', (changed ->> 'every')::interval, changed -> 'payload',
        changed ->> 'misfire', (changed ->> 'cap')::integer);
    perform wakeful.replace_schedule(old, jsonb_populate_record(old, wanted || '{"digest": null}'), wakeful.now(),
        coalesce(actor, session_user::text));
    perform wakeful.note_schedule('change', name, actor, jsonb_build_object('changes', changes));
end
$$;

-- Takes a schedule away. One that code declares comes back when a worker starts that still does.
create function wakeful.remove_schedule(name text, actor text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    old constant wakeful.schedule := wakeful.schedule_of(remove_schedule.name);
begin
    delete from wakeful.schedule s where s.name = old.name;
    perform wakeful.note_schedule('remove', old.name, remove_schedule.actor, null);
end
$$;

-- Pauses or resumes; false when it was so already.
create function wakeful.steer_schedule(name text, pause boolean, actor text, reason text) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    at constant timestamptz := wakeful.now();
    old constant wakeful.schedule := wakeful.schedule_of(steer_schedule.name);
begin
    if old.paused = steer_schedule.pause then
        return false;
    end if;
    update wakeful.schedule s
    set paused = steer_schedule.pause, revision = s.revision + 1, changed_at = at, reason = steer_schedule.reason,
        changed_by = coalesce(steer_schedule.actor, session_user::text),
        since = case when pause then s.since else at end, next_at = case when pause then s.next_at else '-infinity' end
    where s.name = old.name;
    perform wakeful.note_schedule(case when pause then 'pause' else 'resume' end, old.name, steer_schedule.actor,
        jsonb_build_object('reason', steer_schedule.reason));
    return true;
end
$$;

create function wakeful.pause_schedule(name text, actor text default null, reason text default null) returns boolean
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    return wakeful.steer_schedule(name, true, actor, reason);

create function wakeful.resume_schedule(name text, actor text default null, reason text default null) returns boolean
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    return wakeful.steer_schedule(name, false, actor, reason);

-- Makes a job of the schedule now, beside its slots; returns its id, null when enqueuing of the task is switched off.
create function wakeful.run_schedule(name text, actor text default null) returns uuid
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    wanted constant wakeful.schedule := wakeful.schedule_of(run_schedule.name);
    made uuid;
begin
    select e.id into made
    from wakeful.enqueue_rows(array[wakeful.asked_by_schedule(wanted, null, 1)], true, true) e;
    update wakeful.schedule s set last_job_id = coalesce(made, s.last_job_id) where s.name = wanted.name;
    perform wakeful.note_act('run', made, run_schedule.actor, jsonb_build_object('kind', 'schedule', 'name', wanted.name));
    return made;
end
$$;
