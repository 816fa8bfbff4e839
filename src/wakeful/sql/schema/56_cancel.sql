-- Cancel: a waiting job is over at once; a running one is asked to stop, and its worker is told.
-- Promise: a cancellation never overwrites an outcome. It waits for nobody: a row that someone holds is reported as
--   'busy', and the caller tries again. Each act leaves an audit row.
-- Locks: the jobs' rows, skipping locked ones.
create function wakeful.cancel_many(ids uuid[], reason text default null, actor text default null)
    returns table (id uuid, answer text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    locked wakeful.job[];
begin
    locked := array(
        select j from wakeful.job j where j.id = any (ids) order by j.id for update skip locked);
    update wakeful.job j set cancel_requested_at = at, cancel_reason = cancel_many.reason
    where j.id = any (array(select l.id from unnest(locked) l where l.state = 2)) and j.cancel_requested_at is null;
    perform pg_notify(wakeful.channel_of(l.worker_id), '{"cancel": true}')
    from (select distinct l.worker_id from unnest(locked) l where l.state = 2) l;
    perform wakeful.retire_cancelled(array(
        select row(l.id, 'cancelled', null, cancel_many.reason, null, null, true)::wakeful.ended_attempt
        from unnest(locked) l where l.state < 2), at);
    insert into wakeful.audit (at, actor, act, job_id, details)
    select at, coalesce(cancel_many.actor, session_user::text), 'cancel', l.id, jsonb_build_object('reason', cancel_many.reason, 'from', wakeful.state_name(l.state))
    from unnest(locked) l;
    return query
    select i.id, case
        when l.id is not null then case l.state when 2 then 'requested' else 'cancelled' end
        when exists (select from wakeful.job j where j.id = i.id) then 'busy'
        when exists (select from wakeful.finished_job f where f.id = i.id)
            or exists (select from wakeful.dead_letter d where d.id = i.id) then 'over'
        else 'unknown' end
    from unnest(ids) i(id) left join unnest(locked) l on l.id = i.id;
end
$$;

create function wakeful.cancel(id uuid, reason text default null, actor text default null) returns text
    language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    return (select c.answer from wakeful.cancel_many(array[cancel.id], cancel.reason, cancel.actor) c);
