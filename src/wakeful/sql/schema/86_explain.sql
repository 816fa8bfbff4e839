-- Explain: why a job does not run, or what happened to it.
-- Promise: facts as JSON, each taken at one moment; nothing is changed and nothing finished is counted. Raises WF004 for an
--   id that nobody knows. `ahead` is counted up to a thousand.
-- Locks: none.
create function wakeful.explain(id uuid) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    told wakeful.jobs;
    live wakeful.job;
    answer jsonb;
begin
    select v.* into told from wakeful.jobs v where v.id = explain.id;
    if told.id is null then
        perform wakeful.refuse('WF004', format('no job has id %s', explain.id),
            'Check the id with: wakeful jobs list. History is dropped after its retention.', jsonb_build_object('id', explain.id));
    end if;
    select j.* into live from wakeful.job j where j.id = explain.id;
    answer := jsonb_build_object('at', at, 'job', to_jsonb(told), 'names', (
        select coalesce(jsonb_object_agg(w.id, w.name), '{}') from wakeful.worker w
        where w.id = told.worker_id or w.id::text in (
            select a.one ->> 'worker_id' from jsonb_array_elements(coalesce(told.attempts, '[]')) a(one))), 'acts', (
        select coalesce(jsonb_agg(jsonb_build_object('at', a.at, 'actor', a.actor, 'act', a.act, 'details', a.details)
            order by a.id), '[]') from wakeful.audit a where a.job_id = explain.id));
    if live.id is null then
        return answer || jsonb_build_object('letter', (
            select jsonb_build_object('acknowledged', d.acknowledged, 'acknowledged_by', d.acknowledged_by,
                'requeued_as', d.requeued_as) from wakeful.dead_letter d where d.id = explain.id));
    end if;
    return answer || jsonb_build_object(
        'rerun_waits', live.rerun is not null,
        'breakers', (select coalesce(jsonb_agg(b.one), '[]') from jsonb_array_elements(wakeful.breakers_told()) b(one)
            where b.one ->> 'state' <> 'closed' and b.one ->> 'name' in (
                select p.breaker from wakeful.task_policy p where p.task = live.task)),
        'limits', case when live.state < 2 then wakeful.full_limits(live, at) else '[]' end,
        'suspect', live.suspect,
        'holder', (select jsonb_build_object('name', w.name, 'beat_at', w.beat_at, 'alive', w.lease_expires_at > at)
            from wakeful.worker w where w.id = live.worker_id),
        'paused', (select coalesce(jsonb_agg(jsonb_build_object('kind', c.kind, 'name', c.name, 'by', c.changed_by,
            'since', c.changed_at, 'reason', c.reason)), '[]')
            from wakeful.control c where c.paused and (c.kind, c.name) in (('queue', live.queue), ('task', live.task))),
        'workers', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name, 'slots', w.slots, 'running', (
                select count(*) from wakeful.job j where j.state = 2 and j.worker_id = w.id),
                'serves_task', live.task = any (w.tasks), 'serves_queue', w.queues is null or live.queue = any (w.queues))
            order by w.name), '[]')
            from wakeful.worker w where w.lease_expires_at > at),
        'served', (select coalesce(jsonb_agg(distinct t.task), '[]') from wakeful.worker w, unnest(w.tasks) t(task)
            where w.lease_expires_at > at),
        'loops_wait', exists (select from wakeful.sleeper s where s.until > at
            and (s.queues is null or live.queue = any (s.queues)) and (s.tasks is null or live.task = any (s.tasks))),
        'ahead', case when live.state = 1 and live.limit_key is null then (
            select count(*) from (
                select from wakeful.waiting_pairs() p cross join lateral (
                    select from wakeful.job j
                    where j.state = 1 and j.limit_key is null and j.queue = p.queue and j.task = p.task
                      and (j.rank, coalesce(j.turn, j.ready_at), j.id)
                        < (live.rank, coalesce(live.turn, live.ready_at), live.id) limit 1000) a
                where p.queue = live.queue limit 1000) a) end);
end
$$;
