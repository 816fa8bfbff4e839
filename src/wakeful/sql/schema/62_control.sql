-- The switches: pause a queue or a task, turn enqueuing of a task off and on. They act at once, for the whole fleet,
-- and survive restarts.
-- Promise: one row a name; resuming pokes everyone.
-- Locks: the control row.
create function wakeful.steer(kind text, name text, pause boolean, enqueue boolean, actor text, reason text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform wakeful.check_name(kind, name);
    insert into wakeful.control as c (kind, name, paused, enqueuing, changed_at, changed_by, reason)
    values (kind, name, coalesce(pause, false), enqueue, wakeful.now(), coalesce(actor, session_user::text), reason)
    on conflict on constraint control_pkey do update
    set paused = coalesce(pause, c.paused), enqueuing = coalesce(enqueue, c.enqueuing), changed_at = excluded.changed_at,
        changed_by = excluded.changed_by, reason = excluded.reason;
    perform wakeful.note_act(case when pause then 'pause' when not pause then 'resume' when enqueue then 'enqueue_on'
        else 'enqueue_off' end, null, actor, jsonb_build_object('kind', kind, 'name', name, 'reason', reason));
    if not pause then
        perform pg_notify('wakeful', '{"look": true}');
    end if;
end
$$;

create function wakeful.pause_queue(name text, actor text default null, reason text default null) returns void
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    return wakeful.steer('queue', name, true, null, actor, reason);

create function wakeful.resume_queue(name text, actor text default null, reason text default null) returns void
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    return wakeful.steer('queue', name, false, null, actor, reason);

create function wakeful.pause_task(name text, actor text default null, reason text default null) returns void
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    return wakeful.steer('task', name, true, null, actor, reason);

create function wakeful.resume_task(name text, actor text default null, reason text default null) returns void
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    return wakeful.steer('task', name, false, null, actor, reason);

-- Turns enqueuing of a task on or off; while it is off, enqueue returns null.
create function wakeful.switch_task(name text, enqueuing boolean, actor text default null, reason text default null)
    returns void
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    return wakeful.steer('task', name, null, coalesce(enqueuing, true), actor, reason);
