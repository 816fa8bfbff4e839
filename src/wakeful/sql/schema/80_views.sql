-- The views: what a person, a dashboard or another program reads.
-- Promise: names and meaning of columns hold; columns may be added at the end.
-- Locks: none.
create view wakeful.jobs as
select j.id, j.task::text as task, j.queue::text as queue, wakeful.state_name(j.state) as state,
    (-j.rank)::smallint as priority, j.payload::jsonb as payload,
    null::jsonb as result, j.attempt, j.max_attempts, j.epoch, j.run_at, j.created_at, j.updated_at, j.started_at,
    null::timestamptz as finished_at, j.worker_id,
    case when j.state = 2 then coalesce(j.lease_expires_at, w.lease_expires_at) end as lease_expires_at,
    e.error ->> 'code' as last_error_code, e.error ->> 'message' as last_error_message,
    (e.error ->> 'ended_at')::timestamptz as last_error_at,
    j.correlation_id, j.parent_id, j.created_by::text as created_by, j.tenant::text as tenant, j.dedup_key::text as dedup_key,
    j.ready_at, j.expires_at, j.metadata::jsonb as metadata, j.attempts, j.cancel_requested_at, j.cancel_reason, j.origin_id, null::uuid as requeued_as,
    j.progress, j.counters
from wakeful.job j
left join wakeful.worker w on w.id = j.worker_id
cross join lateral (select wakeful.last_error(j.attempts) as error) e
union all
select f.id, f.task, f.queue, wakeful.state_name(f.state), (-f.rank)::smallint, f.payload, f.result, f.attempt, f.max_attempts,
    f.epoch, f.run_at, f.created_at, f.finished_at, f.started_at, f.finished_at, f.worker_id, null,
    e.error ->> 'code', e.error ->> 'message', (e.error ->> 'ended_at')::timestamptz, f.correlation_id, f.parent_id,
    f.created_by, f.tenant, f.dedup_key, f.ready_at, f.expires_at, f.metadata, f.attempts, null, f.cancel_reason, f.origin_id,
    null, f.progress, f.counters
from wakeful.finished_job f
cross join lateral (select wakeful.last_error(f.attempts) as error) e
union all
select d.id, d.task, d.queue, 'dead', (-o.rank)::smallint, o.payload, null, o.attempt, o.max_attempts, o.epoch, o.run_at,
    o.created_at, d.died_at, o.started_at, d.died_at, o.worker_id, null, d.error_code, d.error_message, d.died_at,
    d.correlation_id, o.parent_id, o.created_by, d.tenant, o.dedup_key, o.ready_at, o.expires_at, o.metadata, o.attempts,
    (d.original_job ->> 'cancel_requested_at')::timestamptz, o.cancel_reason, o.origin_id, d.requeued_as, o.progress, o.counters
from wakeful.dead_letter d
-- Not as a live job, whose types look at each value once more: what is over is shown as it was.
cross join lateral jsonb_populate_record(null::wakeful.finished_job, d.original_job) o;

create view wakeful.dead_letters as
select d.id, d.task, d.queue, d.tenant, d.correlation_id, d.error_code, d.error_message, d.error_details, d.died_at,
    d.acknowledged, d.acknowledged_by, d.acknowledged_at, d.requeued_as, d.requeued_at,
    (d.original_job ->> 'attempt')::integer as attempt, d.original_job -> 'payload' as payload, d.original_job
from wakeful.dead_letter d;

-- One row a task and state of what is live or dead and unacknowledged.
create view wakeful.queue_health as
select h.task, h.state, count(*) as count, min(h.since) as oldest, max(h.attempt) as max_attempts,
    extract(epoch from avg(wakeful.now() - h.since))::double precision as avg_age_seconds
from (
    select j.task::text as task, wakeful.state_name(j.state) as state, j.created_at as since, j.attempt from wakeful.job j
    union all
    select d.task, 'dead', d.died_at, (d.original_job ->> 'attempt')::integer from wakeful.dead_letter d where not d.acknowledged
) h
group by h.task, h.state;

-- One row a queue that has live jobs, or that someone has steered.
create view wakeful.queues as
select coalesce(q.queue, c.name) as queue, coalesce(q.scheduled, 0) as scheduled, coalesce(q.ready, 0) as ready,
    coalesce(q.running, 0) as running, q.oldest_ready_at, coalesce(c.paused, false) as paused, c.changed_by, c.changed_at,
    c.reason
from (
    select j.queue::text as queue, count(*) filter (where j.state = 0) as scheduled,
        count(*) filter (where j.state = 1) as ready, count(*) filter (where j.state = 2) as running,
        min(j.ready_at) filter (where j.state = 1) as oldest_ready_at
    from wakeful.job j group by j.queue
) q
full join (select c.* from wakeful.control c where c.kind = 'queue') c on c.name = q.queue;

create view wakeful.workers as
select w.id, w.name, w.queues, w.tasks, w.slots, w.started_at, w.beat_at, w.lease_expires_at,
    w.lease_expires_at > wakeful.now() as alive,
    exists (select from wakeful.sleeper s where s.worker_id = w.id) as asleep,
    (select count(*) from wakeful.job j where j.state = 2 and j.worker_id = w.id) as running, w.details
from wakeful.worker w;

-- `declared`: a worker is there that fires it. next_at is null where no worker has computed it yet, or none will come.
create view wakeful.schedules as
select s.name::text as name, s.task::text as task, s.cron, s.every, s.tz, s.paused,
    case when isfinite(s.next_at) and not s.paused then s.next_at end as next_at, s.last_slot, s.last_job_id, s.misfire, s.cap,
    s.queue::text as queue, s.payload::jsonb as payload, s.options::jsonb as options, s.source, s.version,
    exists (
        select from wakeful.worker w
        where w.lease_expires_at > wakeful.now() and s.task = any (w.tasks)
          and (s.source = 'runtime' or w.details -> 'schedules' ? s.name)) as declared,
    s.anchor, s.since, s.created_at, s.changed_at, s.changed_by, s.reason
from wakeful.schedule s;

create view wakeful.controls as
select c.kind, c.name, c.paused, c.enqueuing, c.changed_at, c.changed_by, c.reason from wakeful.control c;

create view wakeful.audits as
select a.id, a.at, a.actor, a.act, a.job_id, a.details from wakeful.audit a;

-- One row a run of which something is known, in the words of a simpler queue. Times are milliseconds; how long an earlier
-- attempt waited in line is not kept.
create view wakeful.job_metrics as
select f.id, f.task as job_type, wakeful.state_name(f.state) as status,
    (date_part('epoch', f.finished_at - f.started_at) * 1000)::bigint as duration_ms,
    (date_part('epoch', f.started_at - f.ready_at) * 1000)::bigint as queue_time_ms,
    f.finished_at as recorded_at, f.attempt, f.queue, f.tenant
from wakeful.finished_job f where f.state = 3
union all
select h.id, h.task, case when h.died_at = (a.entry ->> 'ended_at')::timestamptz then 'dead' else a.entry ->> 'outcome' end,
    (date_part('epoch', (a.entry ->> 'ended_at')::timestamptz - (a.entry ->> 'started_at')::timestamptz) * 1000)::bigint, null,
    (a.entry ->> 'ended_at')::timestamptz, (a.entry ->> 'attempt')::integer, h.queue, h.tenant
from (
    select j.id, j.task::text as task, j.queue::text as queue, j.tenant::text as tenant, j.attempts, null::timestamptz as died_at
    from wakeful.job j where j.attempts is not null
    union all
    select f.id, f.task, f.queue, f.tenant, f.attempts, null from wakeful.finished_job f where f.attempts is not null
    union all
    select d.id, d.task, d.queue, d.tenant, d.original_job -> 'attempts', d.died_at from wakeful.dead_letter d
    where jsonb_typeof(d.original_job -> 'attempts') = 'array'
) h
cross join lateral jsonb_array_elements(h.attempts) a(entry)
where a.entry ? 'started_at';

-- What each tenant used, by UTC day.
create view wakeful.usages as
select u.day, u.tenant, u.task, u.outcome, sum(u.runs)::bigint as runs, sum(u.seconds) as seconds
from (
    select u.day, u.tenant, u.task, u.outcome, u.runs, u.seconds from wakeful.usage u
    union all select d.day, d.tenant, d.task, d.outcome, d.runs, d.seconds from wakeful.usage_delta d
) u
group by u.day, u.tenant, u.task, u.outcome;

-- What rules found wrong; still so while cleared_at is null.
create view wakeful.alerts as
select a.id, a.rule, a.subject, a.number, a.threshold, a.fired_at, a.cleared_at, a.details from wakeful.alert a;

-- What has come from a home-made table, by the key that it had there.
create view wakeful.imports as
select i.source, i.legacy_key, i.job_id, i.joined, i.imported_at from wakeful.imported i;

-- One row a service. failure_count: within its window, while it is closed; next_probe_at: null unless it is open.
create view wakeful.breakers as
select b.name, b.state, case when b.state = 'closed'
        then (select count(*)::integer from unnest(b.failures) f(at) where f.at > wakeful.now() - b.span)
        else cardinality(b.failures) end as failure_count,
    b.success_count, b.last_failure_at, b.opened_at, b.half_opened_at, b.updated_at, b.probe_at as next_probe_at,
    b.threshold, b.span, b.open_for, b.open_cap, b.probes,
    array(select p.task from wakeful.task_policy p where p.breaker = b.name order by p.task) as tasks
from wakeful.breaker b;

-- What is said about tasks and queues.
create view wakeful.policies as
select 'task' as kind, p.task as name, p.breaker, p.concurrency, 1 / extract(epoch from p.every)::double precision as rate_per_second,
    p.burst, case p.keyed_by when 'payload' then case when p.key_path = '{tenant}' then 'payload.' else '' end || array_to_string(p.key_path, '.') else p.keyed_by end as key,
    null::boolean as fair, null::jsonb as weights, null::interval as ageing, null::integer as max_pending
from wakeful.task_policy p
union all
select 'queue', r.queue, null, r.concurrency, 1 / extract(epoch from r.every)::double precision, r.burst, null, r.fair, r.weights,
    r.ageing, r.max_pending
from wakeful.queue_policy r;
