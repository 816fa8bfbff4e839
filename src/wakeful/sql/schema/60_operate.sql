-- What a person may do to jobs: put back, hurry, bury, acknowledge, purge. Each act leaves an audit row.
-- Promise: what is over stays over; putting it back makes a new job that is linked to the old one both ways, and has the
--   same payload, correlation id and idempotency key.
-- Locks: the rows acted on; waits for none but a dead letter that someone else is acting on.
create function wakeful.note_act(act text, job_id uuid, actor text, details jsonb default null) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    insert into wakeful.audit (at, actor, act, job_id, details)
    values (wakeful.now(), coalesce(note_act.actor, session_user::text), note_act.act, note_act.job_id, note_act.details);
end;

-- Makes a new job of one that is over, and returns its id. A dead letter is put back once: a repeat returns the id that
-- stands for it.
create function wakeful.requeue(id uuid, actor text default null) returns uuid
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    at constant timestamptz := wakeful.now();
    letter wakeful.dead_letter;
    old wakeful.finished_job;
    new_id constant uuid := wakeful.new_id();
    made record;
begin
    select d.* into letter from wakeful.dead_letter d where d.id = requeue.id for update;
    if found then
        if letter.requeued_as is not null then
            return letter.requeued_as;
        end if;
        old := jsonb_populate_record(null::wakeful.finished_job, letter.original_job);
    else
        select f.id, f.queue, f.task, f.rank, f.max_attempts, f.correlation_id, f.parent_id, f.tenant, f.created_by,
            f.payload, f.metadata, f.dedup_key
        into old.id, old.queue, old.task, old.rank, old.max_attempts, old.correlation_id, old.parent_id, old.tenant,
            old.created_by, old.payload, old.metadata, old.dedup_key
        from wakeful.finished_job f where f.id = requeue.id;
        if not found then
            perform wakeful.refuse('WF004', format('no finished or dead job has id %s', requeue.id),
                'List them with: wakeful jobs list. A live job is hurried with retry_now.', jsonb_build_object('id', requeue.id));
        end if;
    end if;
    select e.id, e.action into made from wakeful.enqueue_rows(array[row(1, new_id, old.task, old.payload, old.queue, -old.rank,
        null, null, old.max_attempts, old.dedup_key, null, old.tenant, old.correlation_id, old.parent_id, old.created_by,
        coalesce(old.metadata, '{}') || jsonb_build_object('idempotency_key',
            coalesce(old.metadata ->> 'idempotency_key', old.id::text)), null, null)::wakeful.asked_job], true, true) e;
    if made.action = 'off' then
        perform wakeful.refuse('WF005', format('enqueuing of task %s is switched off', old.task), 'Switch it on first.',
            jsonb_build_object('id', requeue.id));
    end if;
    update wakeful.job j set origin_id = requeue.id where j.id = new_id;
    update wakeful.dead_letter d
    set requeued_as = made.id, requeued_at = at, acknowledged = true,
        acknowledged_by = coalesce(d.acknowledged_by, requeue.actor, session_user::text),
        acknowledged_at = coalesce(d.acknowledged_at, at)
    where d.id = requeue.id;
    perform wakeful.note_act('requeue', requeue.id, requeue.actor, jsonb_build_object('as', made.id));
    return made.id;
end
$$;

-- Makes a scheduled job ready now; false when it is ready or running already.
create function wakeful.retry_now(id uuid, actor text default null) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    at constant timestamptz := wakeful.now();
    moved wakeful.job;
begin
    update wakeful.job j set state = 1, run_at = at, ready_at = at, updated_at = at
    where j.id = retry_now.id and j.state + 0 = 0 returning * into moved;
    if not found then
        if not exists (select from wakeful.job j where j.id = retry_now.id) then
            perform wakeful.refuse('WF004', format('no live job has id %s', retry_now.id),
                'A finished or dead one is put back with requeue.', jsonb_build_object('id', retry_now.id));
        end if;
        return false;
    end if;
    perform wakeful.give_turns(array[moved.id]);
    perform wakeful.poke(moved.queue, moved.task, null, moved.rank, moved.ready_at, moved.id);
    perform wakeful.note_act('retry_now', retry_now.id, retry_now.actor);
    return true;
end
$$;

-- Moves a waiting job to the dead letters by hand.
create function wakeful.bury(id uuid, reason text, actor text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    found_state smallint;
begin
    select j.state into found_state from wakeful.job j where j.id = bury.id for update;
    if not found then
        perform wakeful.refuse('WF004', format('no live job has id %s', bury.id), 'List them with: wakeful jobs list.',
            jsonb_build_object('id', bury.id));
    elsif found_state = 2 then
        perform wakeful.refuse('WF005', format('job %s is running', bury.id), 'Cancel it instead.',
            jsonb_build_object('id', bury.id));
    end if;
    perform wakeful.retire_dead(array[row(bury.id, 'buried', 'buried', bury.reason, null, null, true)::wakeful.ended_attempt],
        wakeful.now());
    perform wakeful.note_act('bury', bury.id, bury.actor, jsonb_build_object('reason', bury.reason));
end
$$;

-- Marks a dead letter as seen; false when it was already.
create function wakeful.acknowledge(id uuid, actor text default null) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    at constant timestamptz := wakeful.now();
begin
    update wakeful.dead_letter d
    set acknowledged = true, acknowledged_by = coalesce(acknowledge.actor, session_user::text), acknowledged_at = at
    where d.id = acknowledge.id and not d.acknowledged;
    if found then
        perform wakeful.note_act('acknowledge', acknowledge.id, acknowledge.actor);
        return true;
    end if;
    if not exists (select from wakeful.dead_letter d where d.id = acknowledge.id) then
        perform wakeful.refuse('WF004', format('no dead letter has id %s', acknowledge.id),
            'List them with: wakeful dead list.', jsonb_build_object('id', acknowledge.id));
    end if;
    return false;
end
$$;

-- Removes dead letters for good, acknowledged or not; returns how many of them there were.
create function wakeful.purge(ids uuid[], actor text default null) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    removed integer;
begin
    with letter as (
        select d.id from wakeful.dead_letter d where d.id = any (purge.ids) order by d.id for update
    ), gone as (
        delete from wakeful.dead_letter d using letter l where d.id = l.id returning d.id, d.died_at, d.task
    ), counted as (
        insert into wakeful.tally_delta (day, task, state, jobs)
        select wakeful.day_of(g.died_at), g.task, 4, -count(*) from gone g group by 1, 2
    ), noted as (
        insert into wakeful.audit (at, actor, act, job_id, details)
        select wakeful.now(), coalesce(purge.actor, session_user::text), 'purge', g.id, jsonb_build_object('task', g.task)
        from gone g
    )
    select count(*) into removed from gone;
    return removed;
end
$$;
