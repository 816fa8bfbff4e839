-- The core: everything that carries a job through its life. The text is that of sql/schema, file by file, as of this version.

-- ==== 01_roles.sql
-- Roles: who may call what. Four cluster-wide roles without login, to be granted to the users' own roles.
-- Promise: an existing role is left as it is; a migrating user who may not create roles still gets a working
--   schema that only its owner can use (the notice says so).
-- Locks: none beyond the catalogue's.
do $$
declare
    name text;
begin
    foreach name in array array['wakeful_producer', 'wakeful_worker', 'wakeful_viewer', 'wakeful_operator'] loop
        begin
            execute pg_catalog.format('create role %I nologin', name);
        exception
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then
                raise notice 'wakeful: role % is missing and % may not create it; ask a superuser to run: create role %',
                    name, current_user, name;
        end;
    end loop;
end
$$;

revoke all on schema wakeful from public;

-- ==== 05_clock.sql
-- The queue's clock: every comparison with time in this schema goes through wakeful.now().
-- Promise: the database's own wall clock, moving within a transaction. Tests replace this one function to
--   travel in time, and open sessions follow at once.
-- Locks: none.
create function wakeful.now() returns timestamptz
    language sql volatile parallel safe
    return pg_catalog.clock_timestamp();

comment on function wakeful.now() is 'The only clock that decides: the wall clock of the database.';

-- Whether every client can read this moment, in whatever time zone: it is a day inside the years 1 and 9999.
create function wakeful.in_calendar(moment timestamptz) returns boolean
    language sql immutable parallel safe
    return moment between timestamptz '0001-01-02 00:00:00+00' and timestamptz '9999-12-30 00:00:00+00';

-- The longest wait or lease. Counted from any plausible moment, it ends in the calendar.
create function wakeful.longest() returns interval
    language sql immutable parallel safe
    return interval '365000 days';

-- ==== 06_identity.sql
-- Ids: UUIDv7, so that new rows land at one end of every index and sort by their making.
-- Promise: a version 7 UUID (RFC 9562): 48 bits of milliseconds, 12 bits of their fraction, 62 random bits.
-- The clock here is the wall clock itself, not the queue's: an id says when it was made, and decides nothing.
-- Locks: none.
create function wakeful.new_id() returns uuid
    language plpgsql volatile parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    micros constant bigint := extract(epoch from clock_timestamp()) * 1000000;
begin
    return encode(overlay(uuid_send(gen_random_uuid()) placing int8send(
        ((micros / 1000) << 16) | (7 << 12) | ((micros % 1000) * 4096 / 1000)) from 1 for 8), 'hex')::uuid;
end
$$;

-- ==== 10_job.sql
-- The live jobs: scheduled (0), ready (1) and running (2). Nothing finished stays here, so a claim's cost does
-- not grow with history.
-- Promise: the table refuses an impossible row by itself. State moves only through the functions of this schema;
--   no role but the owner may write here.
-- Order in line: (queue, task, rank, ready_at, id), all ascending; rank is the negated priority. In a fair queue `turn` stands in
--   for ready_at.
-- limit_key: of a running job, the limit that it counts against; of a ready one, the limit behind which it is parked, out of line.
--   queue_slot: it counts against its queue's limit.
-- Locks: none.

-- What was asked for is checked once, as it comes in, by the type of its column: a check on the table would be paid again
-- at every move of the row.
create domain wakeful.queue_name as text
    constraint queue_name_has_1_to_100_bytes check (octet_length(value) between 1 and 100)
    constraint queue_name_has_no_control_characters check (value !~ '[\x01-\x1f\x7f]');
create domain wakeful.task_name as text
    constraint task_name_has_1_to_200_bytes check (octet_length(value) between 1 and 200)
    constraint task_name_has_no_control_characters check (value !~ '[\x01-\x1f\x7f]');
create domain wakeful.label as text
    constraint label_has_1_to_200_bytes check (octet_length(value) between 1 and 200)
    constraint label_has_no_control_characters check (value !~ '[\x01-\x1f\x7f]');
create domain wakeful.dedup_name as text constraint dedup_key_has_1_to_2000_bytes check (octet_length(value) between 1 and 2000);
create domain wakeful.json_object as jsonb constraint payload_and_metadata_are_json_objects check (jsonb_typeof(value) = 'object');

create table wakeful.job (
    id                  uuid        not null,
    queue               wakeful.queue_name not null,
    task                wakeful.task_name not null,
    state               smallint    not null,
    rank                smallint    not null,
    attempt             integer     not null default 0,
    max_attempts        integer     not null,
    epoch               bigint      not null default 0,
    crashes             smallint    not null default 0,
    shared_crashes      smallint    not null default 0,
    suspect             boolean     not null default false,
    pokes               boolean     not null,
    run_at              timestamptz not null,
    ready_at            timestamptz,
    started_at          timestamptz,
    lease_expires_at    timestamptz,
    expires_at          timestamptz,
    cancel_requested_at timestamptz,
    created_at          timestamptz not null,
    updated_at          timestamptz not null,
    worker_id           uuid,
    correlation_id      uuid        not null,
    parent_id           uuid,
    origin_id           uuid,
    dedup_key           wakeful.dedup_name,
    tenant              wakeful.label,
    created_by          wakeful.label,
    cancel_reason       text,
    limit_key           text,
    queue_slot          boolean     not null default false,
    turn                timestamptz,
    payload             wakeful.json_object not null,
    metadata            wakeful.json_object,
    attempts            jsonb,
    rerun               jsonb,
    saved               jsonb,
    progress            jsonb,
    counters            jsonb,

    constraint job_pkey primary key (id),
    constraint job_state_is_live check (state between 0 and 2),
    constraint job_only_a_running_one_is_held check (
        (state = 2) = (worker_id is not null) and (state = 2 or lease_expires_at is null)
        and (state <> 2 or started_at is not null)),
    constraint job_ready_means_due check ((state = 0) = (ready_at is null) and (limit_key is null or state > 0)),
    constraint job_priority_is_from_minus_100_to_100 check (rank between -100 and 100),
    constraint job_attempts_are_counted check (attempt >= 0 and epoch >= attempt and max_attempts between 1 and 10000)
) with (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

create index job_ready on wakeful.job (queue, task, rank, coalesce(turn, ready_at), id) where state = 1 and limit_key is null;
create index job_scheduled on wakeful.job (queue, task, run_at, id) where state = 0;
create index job_running on wakeful.job (worker_id) where state = 2;
create index job_lease on wakeful.job (lease_expires_at, id) where state = 2 and lease_expires_at is not null;
create index job_expiry on wakeful.job (expires_at, id) where expires_at is not null;
-- Parked jobs (1) and those that run (2), of each limit.
create index job_limited on wakeful.job (limit_key, state, rank, coalesce(turn, ready_at), id) where limit_key is not null;
-- Who waits in a queue includes the parked, who are in no other index by queue.
create index job_parked on wakeful.job (queue) where state = 1 and limit_key is not null;
create index job_turn on wakeful.job (queue, coalesce(tenant::text, ''), rank, turn) where state = 1 and turn is not null;
create index job_suspect on wakeful.job (queue, task, rank, ready_at, id) where state = 1 and suspect;
create unique index job_dedup on wakeful.job (task, dedup_key) where dedup_key is not null;

-- ==== 11_history.sql
-- What is over: completed (3) and cancelled (5) jobs by UTC day, dead ones (4) until someone deals with them.
-- Promise: a settlement never fails for want of a partition (the default one takes what has no day of its own);
--   retention is a DROP of whole days.
-- Locks: none.
create table wakeful.finished_job (
    id                  uuid        not null,
    queue               text        not null,
    task                text        not null,
    state               smallint    not null,
    rank                smallint    not null,
    attempt             integer     not null,
    max_attempts        integer     not null,
    epoch               bigint      not null,
    run_at              timestamptz not null,
    ready_at            timestamptz,
    started_at          timestamptz,
    finished_at         timestamptz not null,
    expires_at          timestamptz,
    created_at          timestamptz not null,
    worker_id           uuid,
    correlation_id      uuid        not null,
    parent_id           uuid,
    origin_id           uuid,
    dedup_key           text,
    tenant              text,
    created_by          text,
    cancel_reason       text,
    payload             jsonb       not null,
    metadata            jsonb,
    attempts            jsonb,
    progress            jsonb,
    counters            jsonb,
    result              jsonb,

    constraint finished_job_state_is_final check (state in (3, 5))
) partition by range (finished_at);

create index finished_job_id on wakeful.finished_job (id);
-- All that came of one request. A job that began one has its own id for it, and pays nothing here.
create index finished_job_correlation on wakeful.finished_job (correlation_id, id) where correlation_id <> id;
create index finished_job_finished_at on wakeful.finished_job using brin (finished_at);

create table wakeful.finished_job_default partition of wakeful.finished_job default;

create table wakeful.dead_letter (
    id              uuid        not null,
    task            text        not null,
    queue           text        not null,
    tenant          text,
    correlation_id  uuid        not null,
    error_code      text        not null,
    error_message   text        not null,
    error_details   jsonb,
    died_at         timestamptz not null,
    acknowledged    boolean     not null default false,
    acknowledged_by text,
    acknowledged_at timestamptz,
    requeued_as     uuid,
    requeued_at     timestamptz,
    original_job    jsonb       not null,

    constraint dead_letter_pkey primary key (id),
    constraint dead_letter_is_acknowledged_by_someone check (
        acknowledged = (acknowledged_at is not null) and acknowledged = (acknowledged_by is not null)),
    constraint dead_letter_requeue_is_linked check ((requeued_as is null) = (requeued_at is null))
);

create index dead_letter_open on wakeful.dead_letter (died_at, id) where not acknowledged;
create index dead_letter_task on wakeful.dead_letter (task, died_at, id);

-- Counts by day, task and final state, so that statistics are exact without counting history. A settlement
-- appends one row to tally_delta (no row is ever contended for); tending folds them into tally.
create table wakeful.tally (
    day     date     not null,
    task    text     not null,
    state   smallint not null,
    jobs    bigint   not null,
    constraint tally_pkey primary key (day, task, state)
);

create table wakeful.tally_delta (
    day     date     not null,
    task    text     not null,
    state   smallint not null,
    jobs    bigint   not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Every act of a person that changes what a job would have become.
create table wakeful.audit (
    id       bigint generated always as identity primary key,
    at       timestamptz not null,
    actor    text        not null,
    act      text        not null,
    job_id   uuid,
    details  jsonb
);

create index audit_job on wakeful.audit (job_id) where job_id is not null;

-- ==== 12_fleet.sql
-- The workers, who of them sleeps, and the switches that steer them all.
-- Promise: small tables, one row a worker, sleeper or steered name.
-- Locks: none.
create table wakeful.worker (
    id               uuid        not null,
    name             text        not null,
    queues           text[],
    tasks            text[]      not null,
    slots            integer     not null,
    started_at       timestamptz not null,
    beat_at          timestamptz not null,
    lease_expires_at timestamptz not null,
    -- When one of its jobs was last taken back: after its last beat, those that are left had company.
    taken_back_at    timestamptz,
    details          jsonb,
    constraint worker_pkey primary key (id)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

-- Who wants to be poked. It holds nothing worth keeping over a crash: a worker that reconnects declares itself again.
-- `until` is when a caller outside the fleet must have declared itself again; null for a worker, which is rescued. `takes`: the
-- channel on which jobs may be handed to it, a secret of its own; null for none.
create unlogged table wakeful.sleeper (
    worker_id uuid        not null,
    queues    text[],
    tasks     text[],
    until     timestamptz,
    takes     text,
    constraint sleeper_pkey primary key (worker_id)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

-- One row a queue or task that someone has steered by hand. No row: everything is on.
create table wakeful.control (
    kind       text        not null,
    name       text        not null,
    paused     boolean     not null default false,
    enqueuing  boolean,
    changed_at timestamptz not null,
    changed_by text        not null,
    reason     text,
    constraint control_pkey primary key (kind, name),
    constraint control_kind_is_known check (kind in ('queue', 'task')),
    constraint control_only_a_task_is_switched check (kind = 'task' or enqueuing is null)
);

create table wakeful.setting (
    name  text not null,
    value text not null,
    constraint setting_pkey primary key (name)
);

-- ==== 13_metrics.sql
-- What is kept of runs in numbers: counts and histograms by task, usage by tenant, and what handlers count.
-- Promise: a settlement appends to the deltas, so that no row is ever contended for; tending folds them into the sums, and
--   rolls those up from minutes to hours to days. Small, whatever was run.
-- Locks: none.

-- A histogram's bucket holds what lasted up to 2^(bucket/4) seconds: four to an octave, so that a percentile is right
-- to within a tenth. `measure`: run is from claim to settlement, wait from ready to claim. A row holds a whole histogram:
-- its buckets in their order, and the runs and seconds in each.
create table wakeful.metric (
    grain    text               not null,
    at       timestamptz        not null,
    task     text               not null,
    outcome  text               not null,
    measure  text               not null,
    buckets  smallint[]         not null,
    runs     bigint[]           not null,
    seconds  double precision[] not null,
    constraint metric_pkey primary key (grain, at, task, outcome, measure),
    constraint metric_grain_is_known check (grain in ('minute', 'hour', 'day')),
    constraint metric_measure_is_known check (measure in ('run', 'wait'))
);

-- One bucket of a histogram.
create type wakeful.metric_bar as (
    grain text, at timestamptz, task text, outcome text, measure text, bucket smallint, runs bigint, seconds double precision
);

create table wakeful.metric_delta (
    minute       timestamptz      not null,
    task         text             not null,
    outcome      text             not null,
    run_bucket   smallint         not null,
    wait_bucket  smallint         not null,
    runs         bigint           not null,
    run_seconds  double precision not null,
    wait_seconds double precision not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create table wakeful.usage (
    day     date             not null,
    tenant  text             not null,
    task    text             not null,
    outcome text             not null,
    runs    bigint           not null,
    seconds double precision not null,
    constraint usage_pkey primary key (day, tenant, task, outcome)
);

create table wakeful.usage_delta (
    day     date             not null,
    tenant  text             not null,
    task    text             not null,
    outcome text             not null,
    runs    bigint           not null,
    seconds double precision not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create table wakeful.counter (
    day    date    not null,
    task   text    not null,
    name   text    not null,
    number numeric not null,
    constraint counter_pkey primary key (day, task, name)
);

create table wakeful.counter_delta (
    day    date    not null,
    task   text    not null,
    name   text    not null,
    number numeric not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- What a rule found wrong, from when to when.
create table wakeful.alert (
    id         bigint generated always as identity primary key,
    rule       text             not null,
    subject    text             not null,
    number     double precision not null,
    threshold  double precision not null,
    fired_at   timestamptz      not null,
    cleared_at timestamptz,
    details    jsonb
);

create unique index alert_open on wakeful.alert (rule, subject) where cleared_at is null;

-- One run, as far as it is measured. counters are given where the job is over, so that they are added once.
create type wakeful.measured_run as (
    task text, tenant text, outcome text, started_at timestamptz, ready_at timestamptz, counters jsonb
);

-- The bucket of a number of seconds; what is below a tenth of a millisecond is one.
create function wakeful.bucket_of(seconds double precision) returns smallint
    language sql immutable parallel safe
    return ceil(ln(greatest(seconds, 0.0001)) * 5.770780163555854)::smallint;

-- The middle of a bucket, in seconds.
create function wakeful.seconds_of(bucket smallint) returns double precision
    language sql immutable parallel safe
    return exp((bucket - 0.5) / 5.770780163555854);

-- ==== 13_policy.sql
-- What holds over the whole fleet: circuit breakers, limits on tasks, queues and keys, fair shares.
-- Promise: small tables. A task or queue without a row in task_policy or queue_policy costs a claim nothing but the look
--   whether there are any. Whatever counts is derived from the jobs that run: no counter that could drift.
-- Locks: none.

-- One row a service. `failures` are the moments of the newest ones, `threshold` of them at most; `cautious` is set from a
-- failure to the next success, and from the first start to the first success (tried_at: when a job behind it was started first; nobody knows
-- yet whether the service is there at all). `attentive`: outcomes matter to it; while it is not, a success writes nothing.
create table wakeful.breaker (
    name            text        not null,
    state           text        not null default 'closed',
    threshold       integer     not null default 5,
    span            interval    not null default '60 seconds',
    open_for        interval    not null default '60 seconds',
    open_cap        interval    not null default '10 minutes',
    probes          integer     not null default 1,
    failures        timestamptz[] not null default '{}',
    success_count   integer     not null default 0,
    cautious        boolean     not null default false,
    attentive       boolean     not null generated always as (state <> 'closed' or cautious) stored,
    open_length     interval,
    tried_at        timestamptz,
    last_failure_at timestamptz,
    opened_at       timestamptz,
    half_opened_at  timestamptz,
    closed_at       timestamptz,
    probe_at        timestamptz,
    updated_at      timestamptz not null,
    constraint breaker_pkey primary key (name),
    constraint breaker_name_has_1_to_100_bytes check (octet_length(name) between 1 and 100),
    constraint breaker_state_is_known check (state in ('closed', 'open', 'half_open')),
    constraint breaker_threshold_is_from_1_to_1000 check (threshold between 1 and 1000),
    constraint breaker_probes_are_from_1_to_1000 check (probes between 1 and 1000),
    constraint breaker_spans_are_positive check (span > interval '0' and open_for > interval '0' and open_cap >= open_for),
    constraint breaker_open_knows_when_to_probe check ((state = 'open') = (probe_at is not null))
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

-- Who has been let through a half-open breaker: a job that runs under this epoch, or (epoch null) a caller outside of any job,
-- for as long as it may take.
create table wakeful.probe (
    breaker text        not null references wakeful.breaker (name) on delete cascade,
    holder  uuid        not null,
    epoch   bigint,
    until   timestamptz,
    constraint probe_pkey primary key (breaker, holder),
    constraint probe_is_a_jobs_or_ends check ((epoch is null) = (until is not null))
);

-- What is said about a task beyond its own code, so that claims by anyone obey it. A limit is on the task as a whole, or
-- (keyed_by) on each tenant, or each value at key_path in the payload. Rate: one start every `every`, `burst` at once.
create table wakeful.task_policy (
    task        text     not null,
    breaker     text,
    concurrency integer,
    every       interval,
    burst       integer,
    keyed_by    text,
    key_path    text[],
    constraint task_policy_pkey primary key (task),
    constraint task_policy_says_something check (num_nonnulls(breaker, concurrency, every) > 0),
    constraint task_policy_concurrency_is_positive check (concurrency > 0),
    constraint task_policy_rate_is_positive check (every > interval '0' and burst > 0),
    constraint task_policy_rate_is_whole check ((every is null) = (burst is null)),
    constraint task_policy_key_is_known check (keyed_by in ('tenant', 'payload') and (keyed_by = 'payload') = (key_path is not null)),
    constraint task_policy_key_limits_something check (keyed_by is null or num_nonnulls(concurrency, every) > 0)
);

-- What is said about a queue. fair: its tenants take turns, each by its weight in `weights` ({tenant: weight}; 1 for the others).
-- ageing: after so long in line a job counts as one priority higher. max_pending: more than so many are not let in.
create table wakeful.queue_policy (
    queue       text     not null,
    concurrency integer,
    every       interval,
    burst       integer,
    fair        boolean  not null default false,
    weights     jsonb    not null default '{}',
    ageing      interval,
    max_pending integer,
    constraint queue_policy_pkey primary key (queue),
    constraint queue_policy_concurrency_is_positive check (concurrency > 0),
    constraint queue_policy_rate_is_positive check (every > interval '0' and burst > 0),
    constraint queue_policy_rate_is_whole check ((every is null) = (burst is null)),
    constraint queue_policy_ageing_is_positive check (ageing > interval '0'),
    constraint queue_policy_max_pending_is_positive check (max_pending > 0)
);

-- How many jobs wait in a queue that may have so many only, as it was counted last. Worth nothing after a crash.
create unlogged table wakeful.queue_depth (
    queue      text        not null,
    pending    bigint      not null,
    counted_at timestamptz not null,
    constraint queue_depth_pkey primary key (queue)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

-- The state of a limit that has any: arrives_at is when the bucket of its rate is full again, wake_at when jobs parked behind it
-- may be looked at again.
create table wakeful.gate (
    key        text not null,
    task       text,
    arrives_at timestamptz,
    wake_at    timestamptz,
    constraint gate_pkey primary key (key)
) with (fillfactor = 70, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

create index gate_wakes on wakeful.gate (task, wake_at) where wake_at is not null;

-- A slot behind which jobs may be parked came free. Written at every end of a job with a keyed limit (so nobody waits for a row),
-- taken away by whoever looks at the key next.
create table wakeful.freed_slot (
    task text not null,
    key  text not null
) with (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

create index freed_slot_task on wakeful.freed_slot (task, key);

-- How far the fair turns of a queue have come, for each rank. Late by a claim or two: nobody waits for it.
create table wakeful.fair_clock (
    queue text        not null,
    rank  smallint    not null,
    turn  timestamptz not null,
    constraint fair_clock_pkey primary key (queue, rank)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

-- ==== 13_schedule.sql
-- The schedules: what makes jobs by the clock. Workers compute the slots, this table says which of them are taken.
-- Promise: a slot makes its job once, by the compare-and-set on last_slot in fire_1. next_at is the slot to come: -infinity
--   while nobody has computed it, infinity when none will come. revision changes with every definition, pause and resume.
-- `anchor` is where `every` counts from; slots up to `since` are not made up for. `digest` stands for a definition in code,
--   `superseded` for those that it came after.
-- Locks: none.
create table wakeful.schedule (
    name        wakeful.label not null,
    task        wakeful.task_name not null,
    queue       wakeful.queue_name,
    payload     wakeful.json_object not null,
    options     wakeful.json_object not null default '{}',
    cron        text,
    every       interval,
    tz          text          not null default 'UTC',
    misfire     text          not null default 'latest',
    cap         integer       not null default 100,
    source      text          not null,
    version     integer       not null default 0,
    digest      text,
    superseded  text[]        not null default '{}',
    paused      boolean       not null default false,
    revision    bigint        not null default 1,
    anchor      timestamptz   not null,
    since       timestamptz   not null,
    last_slot   timestamptz,
    next_at     timestamptz   not null default '-infinity',
    last_job_id uuid,
    created_at  timestamptz   not null,
    changed_at  timestamptz   not null,
    changed_by  text          not null,
    reason      text,

    constraint schedule_pkey primary key (name),
    constraint schedule_has_either_cron_or_every check ((cron is null) <> (every is null)),
    constraint schedule_every_is_from_1_second_to_365000_days check (every between interval '1 second' and interval '365000 days'),
    constraint schedule_misfire_is_latest_skip_or_all check (misfire in ('latest', 'skip', 'all')),
    constraint schedule_cap_is_from_1_to_1000 check (cap between 1 and 1000),
    constraint schedule_source_is_code_or_runtime check (source in ('code', 'runtime')),
    constraint schedule_version_is_not_negative check (version >= 0)
);

create index schedule_due on wakeful.schedule (task, next_at) where not paused;

-- ==== 14_words.sql
-- The words for states, and the one way this schema refuses.
-- Promise: pure functions; refuse() always raises, with a SQLSTATE of ours, a message, what to do (hint), and
--   data as JSON in the detail.
-- Locks: none.
create function wakeful.state_name(state smallint) returns text
    language sql immutable parallel safe strict
    return case state
        when 0 then 'scheduled' when 1 then 'ready' when 2 then 'running'
        when 3 then 'completed' when 4 then 'dead' when 5 then 'cancelled' end;

-- SQLSTATEs: WF001 stale claim, WF002 duplicate, WF003 invalid option, WF004 not found, WF005 refused in this state,
-- WF006 worker's lease lapsed, WF007 schema mismatch, WF008 queue full.
create function wakeful.refuse(code text, message text, hint text, detail jsonb default null) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using errcode = code, message = message, hint = hint, detail = coalesce(detail::text, '');
end
$$;

-- Refuses what has no name.
create function wakeful.check_name(kind text, name text) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(name, '') = '' then
        perform wakeful.refuse('WF003', format('the %s has no name', kind), 'Name it.');
    end if;
end
$$;

-- Refuses a lease that has lapsed when it begins, or would never lapse.
create function wakeful.check_lease(lease interval) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if lease is null or lease <= interval '0' or lease > wakeful.longest() then
        perform wakeful.refuse('WF003', format('lease %s is not positive, or longer than %s', coalesce(lease::text, 'null'), wakeful.longest()),
            'Give a lease such as 5 minutes.');
    end if;
end
$$;

-- The wait before the next start after `attempt` starts, for callers that name none: 1 s, doubling, at most 300 s,
-- spread by a tenth.
create function wakeful.backoff(attempt integer) returns interval
    language sql volatile parallel safe
    return pg_catalog.make_interval(secs => least(300.0,
        power(2.0, least(greatest(attempt, 1), 20) - 1) * (1 + 0.1 * (2 * pg_catalog.random() - 1))));

-- Appends one attempt to a job's history. The newest hundred are kept: a job may be snoozed for years.
create function wakeful.with_attempt(attempts jsonb, entry jsonb) returns jsonb
    language sql immutable parallel safe
    return case
        when attempts is null then pg_catalog.jsonb_build_array(entry)
        when pg_catalog.jsonb_array_length(attempts) < 100 then attempts || entry
        else (attempts - 0) || entry end;

-- The newest attempt in a history that ended in an error; null for none.
create function wakeful.last_error(attempts jsonb) returns jsonb
    language sql immutable parallel safe
    return (select a.entry from pg_catalog.jsonb_array_elements(attempts) with ordinality a(entry, place)
        where a.entry ? 'code' order by a.place desc limit 1);

-- Two sets of counters, {name: number}, as one.
create function wakeful.added_up(counters jsonb, more jsonb) returns jsonb
    language sql immutable parallel safe
    return (
        select pg_catalog.jsonb_object_agg(c.name, c.number) from (
            select e.key as name, sum(e.value::numeric) as number
            from (select * from pg_catalog.jsonb_each_text(coalesce(counters, '{}'))
                union all select * from pg_catalog.jsonb_each_text(more)) e
            group by e.key) c);

-- ==== 15_dedup_key.sql
-- The dedup key of a job's content: task::tenant-or-global::sorted-json.
-- Promise: the same bytes as Python's wakeful.values.dedup, for every payload that jsonb holds; pure functions.
-- Parameters: value, any JSON value (null gives null); task, its name; tenant, null for none; payload, null for {}.
-- Locks: none; no table is read.
--
-- The canonical text: no white space; keys sorted by code point at every level; the escapes of JSON.stringify; numbers
-- as plain decimals without exponent, trailing zeros or negative zero. Equal jsonb values have equal texts.
create function wakeful.canonical_json(value jsonb) returns text
    language plpgsql immutable parallel safe strict
    set search_path = pg_catalog, pg_temp
as $$
begin
    case jsonb_typeof(value)
        when 'object' then
            -- Scalars are written in place: a call for each would cost more than all the rest.
            return '{' || coalesce((
                select string_agg(
                    to_jsonb(member.key)::text || ':' || case
                        when jsonb_typeof(member.value) = 'number' then trim_scale(member.value::numeric)::text
                        when jsonb_typeof(member.value) in ('object', 'array') then wakeful.canonical_json(member.value)
                        else member.value::text end,
                    ',' order by member.key collate "C")
                from jsonb_each(value) as member (key, value)), '') || '}';
        when 'array' then
            return '[' || coalesce((
                select string_agg(
                    case
                        when jsonb_typeof(item.value) = 'number' then trim_scale(item.value::numeric)::text
                        when jsonb_typeof(item.value) in ('object', 'array') then wakeful.canonical_json(item.value)
                        else item.value::text end,
                    ',' order by item.position)
                from jsonb_array_elements(value) with ordinality as item (value, position)), '') || ']';
        when 'number' then
            return trim_scale(value::numeric)::text;
        else
            return value::text;
    end case;
end
$$;

create function wakeful.dedup_key(task text, tenant text, payload jsonb) returns text
    language sql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
    select task || '::' || coalesce(tenant, 'global') || '::' || wakeful.canonical_json(coalesce(payload, '{}'))
$$;

-- ==== 20_poke.sql
-- The poke: a hint to sleepers that a job became runnable, or will, sooner than they know.
-- Channels: every worker listens on `wakeful` and on its own, `wakeful_` and its id in hex. A poke goes to two sleepers
--   that serve the queue and have the task, chosen at random: one would do, the second is there in case the first has just died. Who finds
--   more than it can take pokes the next two. So one job never wakes a fleet.
-- Format (JSON): {"q": queue, "in": milliseconds until due, "at": [rank, ready_at in microseconds since 1970, id]}
--   "at" is the least position in line that the sender added; it is absent for a job that is due later, and where the
--   sender knows only that there is more.
--   A job is handed over on a channel that only its worker knows of: see 36_hand_over.sql.
--   {"look": true} asks to look again (something was resumed); {"cancel": true} asks a worker to look for jobs of its own
--   that were cancelled; {"canary": number} tells a worker that its listener hears.
-- Promise: sent when the transaction commits, and only if a worker sleeps that serves it. A transaction that sees
--   an old snapshot (repeatable read, serializable) cannot know who sleeps, and pokes everyone.
-- Locks: an advisory lock, shared, from the look at who sleeps to the end of the transaction; NOTIFY takes PostgreSQL's own
--   commit lock, which is why nobody is poked while all are busy.
create function wakeful.channel_of(worker_id uuid) returns text
    language sql immutable parallel safe strict
    return 'wakeful_' || pg_catalog.replace(worker_id::text, '-', '');

-- Whether a poke about this queue and task is for a sleeper. Volatile, as the clock is, or it could not be inlined.
create function wakeful.hears_of(sleeper wakeful.sleeper, queue text, task text) returns boolean
    language sql volatile
    return (sleeper.queues is null or queue = any (sleeper.queues)) and (sleeper.tasks is null or task = any (sleeper.tasks))
        and (sleeper.until is null or sleeper.until > wakeful.now());

-- Whether a poke could be for anyone at all. Nearly always nobody sleeps, and this is all that a poke costs.
create function wakeful.someone_hears() returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- A serializable reader of `sleeper` would conflict with every worker that goes to sleep.
    if current_setting('transaction_isolation') <> 'read committed' then
        return true;
    end if;
    -- Taken before the look: see nobody_is_between.
    perform pg_advisory_xact_lock_shared(hashtextextended('wakeful.poke', 0));
    return exists (select from wakeful.sleeper);
end
$$;

-- Tells these of a job; null: everyone.
create function wakeful.poke_these(
    sleepers uuid[], queue text, due_at timestamptz, rank smallint, ready_at timestamptz, id uuid) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    hint constant text := case when poke_these.ready_at is null
        then json_build_object('q', poke_these.queue,
            'in', greatest(0, ceil(extract(epoch from poke_these.due_at - wakeful.now()) * 1000))::bigint)
        else json_build_object('q', poke_these.queue, 'in', 0, 'at', json_build_array(
            poke_these.rank, (extract(epoch from poke_these.ready_at) * 1000000)::bigint, poke_these.id)) end::text;
begin
    perform pg_notify('wakeful', hint) where sleepers is null;
    perform pg_notify(wakeful.channel_of(s.worker_id), hint) from unnest(sleepers) s(worker_id);
end
$$;

-- Pokes, if someone hears; whether it did.
create function wakeful.poke(
    queue text, task text, due_at timestamptz, rank smallint, ready_at timestamptz, id uuid) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    sleepers uuid[];
begin
    if not wakeful.someone_hears() then
        return false;
    elsif current_setting('transaction_isolation') = 'read committed' then
        -- Sorted first: whom chance means is not to hang on where the rows lie.
        sleepers := array(
            select w.worker_id from (
                select s.worker_id from wakeful.sleeper s where wakeful.hears_of(s, poke.queue, poke.task) order by s.worker_id) w
            order by random() limit 2);
        if sleepers = '{}' then
            return false;
        end if;
    end if;
    perform wakeful.poke_these(sleepers, poke.queue, poke.due_at, poke.rank, poke.ready_at, poke.id);
    return true;
end
$$;

-- Whether no transaction is between its look at who sleeps and its end. A worker that has declared itself asleep since, and
-- then finds nobody in between and nothing in line, misses nothing: who looks from now on sees it asleep, and the rows of
-- those who looked before are there to be seen.
create function wakeful.nobody_is_between() returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    between_locks constant bigint := hashtextextended('wakeful.poke', 0);
begin
    -- Given back at once, or pokes would wait for it.
    return pg_try_advisory_lock(between_locks) and pg_advisory_unlock(between_locks);
end
$$;

create function wakeful.poke_at_commit() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    perform wakeful.poke(new.queue, new.task, new.run_at, new.rank, new.ready_at, new.id);
    return null;
end
$$;

-- Deferred, so that who sleeps is looked up as late as can be, however long the transaction goes on.
create constraint trigger job_pokes_at_commit
    after insert on wakeful.job
    deferrable initially deferred
    for each row when (new.pokes)
    execute function wakeful.poke_at_commit();

-- Whether this row must speak for itself, because no earlier one of its transaction has said as much for its queue and task:
-- a ready job of the same or a better rank, or (for a job due later) one due no later, or any ready one, after which
-- sleepers ask what is due next. Kept in a transaction-local setting, which a rolled-back savepoint takes back.
create function wakeful.speaks_first(queue text, task text, rank smallint, due_at timestamptz) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    spoken constant jsonb := coalesce(nullif(current_setting('wakeful.spoken', true), ''), '{}');
    topic constant text := jsonb_build_array(speaks_first.queue, speaks_first.task)::text;
    known constant jsonb := coalesce(spoken -> topic, '{}');
    due constant double precision := extract(epoch from speaks_first.due_at);
begin
    if due is null and (known ->> 'rank')::int <= speaks_first.rank
       or due is not null and (known ? 'rank' or (known ->> 'due')::double precision <= due) then
        return false;
    end if;
    return set_config('wakeful.spoken', (spoken || jsonb_build_object(topic, known || case when due is null
        then jsonb_build_object('rank', speaks_first.rank) else jsonb_build_object('due', due) end))::text, true) is not null;
end
$$;

-- ==== 25_partitions.sql
-- The days of history: made ahead, dropped when old.
-- Promise: neither ever makes a settlement wait for longer than the lock timeout below, and both may be called at any
--   time by anyone who tends; a busy moment is left for the next call.
-- Locks: named at each function.
create function wakeful.day_of(at timestamptz) returns date
    language sql immutable parallel safe strict
    return (at at time zone 'UTC')::date;

create function wakeful.partition_name(day date) returns text
    language sql immutable parallel safe strict
    return 'finished_job_' || pg_catalog.to_char(day::timestamp, 'YYYYMMDD');

-- Makes the partitions of today and the `ahead` days after it; returns how many it made.
-- Locks: CREATE and ATTACH take share update exclusive on finished_job and a short access exclusive on the (empty)
--   default partition; CREATE … PARTITION OF would wait for every reader of history.
create function wakeful.make_days(ahead integer default 7) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '100ms'
    set datestyle = 'ISO' set timezone = 'UTC'
as $$
declare
    today date := wakeful.day_of(wakeful.now());
    day date;
    name text;
    made integer := 0;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('wakeful.days', 0)) then
        return 0;
    end if;
    for day in select today + n from generate_series(0, make_days.ahead) n loop
        name := wakeful.partition_name(day);
        continue when to_regclass('wakeful.' || name) is not null;
        begin
            execute format('create table wakeful.%I (like wakeful.finished_job including all)', name);
            execute format('alter table wakeful.finished_job attach partition wakeful.%I for values from (%L) to (%L)',
                name, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
            made := made + 1;
        exception
            -- Rows of that day already in the default partition (made late), or a reader in the way: the default
            -- partition serves, and the next call tries again.
            when lock_not_available or check_violation then null;
        end;
    end loop;
    return made;
end
$$;

-- Drops whole days that ended more than `keep` ago, and their counts; returns how many it dropped. Of such days, jobs that are in no
-- partition of their own (imported ones, for instance) are deleted, ten thousand in a call.
-- Locks: access exclusive on finished_job, for as long as a DROP takes; gives up after 50 ms when someone reads.
create function wakeful.drop_days(keep interval) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '50ms'
as $$
declare
    old record;
    dropped integer := 0;
begin
    if drop_days.keep is null or drop_days.keep < interval '0' then
        perform wakeful.refuse('WF003', 'keep is missing or negative', 'Give an interval such as 7 days.');
    end if;
    -- The tally's lock too: a fold under way could carry a day's counts past their deletion.
    if not pg_try_advisory_xact_lock(hashtextextended('wakeful.days', 0))
       or not pg_try_advisory_xact_lock(hashtextextended('wakeful.tally', 0)) then
        return 0;
    end if;
    for old in
        select c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') as day
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'wakeful.finished_job'::regclass and c.relname ~ '^finished_job_[0-9]{8}$'
        order by c.relname
    loop
        exit when (old.day + 1)::timestamp at time zone 'UTC' > wakeful.now() - least(drop_days.keep, wakeful.longest());
        begin
            execute format('drop table wakeful.%I', old.relname);
            delete from wakeful.tally t where t.day = old.day and t.state in (3, 5);
            delete from wakeful.tally_delta t where t.day = old.day and t.state in (3, 5);
            dropped := dropped + 1;
        exception
            when lock_not_available then exit;
        end;
    end loop;
    with gone as (
        delete from wakeful.finished_job_default f
        where f.ctid = any (array(
            select o.ctid from wakeful.finished_job_default o
            where o.finished_at < date_trunc('day', wakeful.now() - least(drop_days.keep, wakeful.longest()), 'UTC') limit 10000 for update skip locked))
        returning f.finished_at, f.task, f.state
    )
    insert into wakeful.tally_delta (day, task, state, jobs)
    select wakeful.day_of(g.finished_at), g.task, g.state, -count(*) from gone g group by 1, 2, 3;
    return dropped;
end
$$;

-- ==== 30_enqueue.sql
-- Enqueue: how a job comes into being.
-- Promise: after the caller's COMMIT the job exists exactly once. An id that is live, finished or dead already makes no
--   second job. A row with a dedup_key joins its live twin by the mode asked for; the unique index decides, not a look
--   beforehand, so a transaction that loses to one which then rolls back still ends with one job.
-- Locks: inserts in (task, dedup_key) order; waits only for a foreign transaction that holds the same dedup_key or id.

-- One job as it is asked for; null stands for the default.
create type wakeful.asked_job as (
    place integer, id uuid, task text, payload jsonb, queue text, priority integer, run_at timestamptz, delay interval,
    max_attempts integer, dedup_key text, dedup text, tenant text, correlation_id uuid, parent_id uuid, created_by text,
    metadata jsonb, expires_at timestamptz, default_off boolean
);

-- Enqueues a set of asked jobs. `fresh` says that the ids were made a moment ago and were never sent before, which
-- spares the look into history; `alone` that the transaction ends with this call, so that who sleeps can be looked up at once.
-- Returns a row for each that was not simply inserted: its place, the id that stands for it (null
-- when enqueuing of its task is off), and what was done: resent, skipped, replaced, debounced, rerun or off.
create function wakeful.enqueue_set(jobs wakeful.asked_job[], fresh boolean, poke boolean, alone boolean default false)
    returns table (place integer, id uuid, action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    first constant uuid := jobs[1].id;
    wanted wakeful.asked_job[] := jobs;
    any_wrong boolean;
    any_off boolean;
    any_steered boolean;
    speakers integer[];
    inserted integer;
    over uuid[];
begin
    -- One look tells most sets that there is nothing special about them.
    select bool_or(wakeful.asks_wrongly(j)),
        bool_or(j.default_off) or exists (select from wakeful.control c where c.kind = 'task' and c.enqueuing is not null),
        exists (select from wakeful.queue_policy)
    into any_wrong, any_off, any_steered from unnest(jobs) j;
    if any_off then
        wanted := wakeful.without_switched_off(jobs);
        return query select j.place, null::uuid, 'off' from unnest(jobs) j
            where not exists (select from unnest(wanted) w where w.place = j.place);
    end if;
    if any_wrong then
        perform wakeful.check_asked(wanted);
    end if;
    if any_steered then
        perform wakeful.refuse_when_full(wanted);
    end if;
    if enqueue_set.poke and not alone then
        speakers := wakeful.speakers(wanted, at);
    end if;

    inserted := wakeful.insert_asked(wanted, speakers, at);
    -- Fresh ids are young, the first is the oldest; such as arrive late are looked for all the same. A later statement, hence
    -- a later snapshot: it sees a twin that finished while the insert waited for it.
    if not wakeful.is_young(first, fresh, at) then
        over := wakeful.ids_already_over(wanted, at);
        delete from wakeful.job j where over is not null and j.id = any (over) and j.created_at = at;
    end if;
    if inserted < cardinality(wanted) or over is not null then
        return query select * from wakeful.join_twins(wanted, coalesce(over, '{}'), poke, at) t where t.action <> 'inserted';
    elsif alone and enqueue_set.poke then
        perform wakeful.poke_best(wanted, at);
    end if;
end
$$;

-- The same, with an answer for each, in their order.
create function wakeful.enqueue_rows(jobs wakeful.asked_job[], fresh boolean, poke boolean)
    returns table (place integer, id uuid, action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select j.place, case when e.place is null then j.id else e.id end, coalesce(e.action, 'inserted')
    from unnest(jobs) j left join wakeful.enqueue_set(jobs, fresh, poke) e on e.place = j.place
    order by j.place;
end
$$;

-- Whether an id that is said to be fresh looks it: a UUIDv7 of this quarter of a second.
create function wakeful.is_young(id uuid, fresh boolean, at timestamptz) returns boolean
    language sql stable
    return fresh and substr(id::text, 15, 1) = '7'
        and ('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint
            between extract(epoch from at) * 1000 - 250 and extract(epoch from at) * 1000 + 250;

-- Inserts the jobs that meet no conflict and returns how many those were. `speakers` are the places that carry the poke.
create function wakeful.insert_asked(jobs wakeful.asked_job[], speakers integer[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    turns constant timestamptz[] := wakeful.turns_of(jobs);
    inserted integer;
begin
    insert into wakeful.job (
        id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at, expires_at, created_at, updated_at,
        correlation_id, parent_id, dedup_key, tenant, created_by, payload, metadata, turn)
    select j.id, coalesce(j.queue, 'default'), j.task, case when due.at > insert_asked.at then 0 else 1 end,
        wakeful.rank_of(j.priority), coalesce(j.max_attempts, 5), coalesce(j.place = any (speakers), false), due.at,
        case when due.at > insert_asked.at then null else insert_asked.at end, j.expires_at, insert_asked.at, insert_asked.at,
        coalesce(j.correlation_id, case when j.parent_id is not null then wakeful.correlation_of(j.parent_id) end, j.id), j.parent_id, j.dedup_key, j.tenant,
        j.created_by, j.payload, j.metadata, case when due.at <= insert_asked.at then turns[j.ordinality] end
    from unnest(jobs) with ordinality j
    cross join lateral (select coalesce(j.run_at, insert_asked.at + j.delay, insert_asked.at) as at) due
    order by case when j.dedup_key is not null then j.task end, j.dedup_key, j.place
    on conflict do nothing;
    get diagnostics inserted = row_count;
    return inserted;
end
$$;

-- The rank of a priority. One that is out of range stays so, for the table to refuse it.
create function wakeful.rank_of(priority integer) returns smallint
    language sql immutable parallel safe
    return (-greatest(-101, least(101, coalesce(priority, 0))))::smallint;

-- Whether no row can hold this.
create function wakeful.asks_wrongly(job wakeful.asked_job) returns boolean
    language sql immutable
    return job.id is null or job.task is null or job.payload is null
        or jsonb_typeof(job.payload) <> 'object' or jsonb_typeof(job.metadata) <> 'object'
        or job.delay < interval '0' or job.delay > wakeful.longest() or job.delay is not null and job.run_at is not null
        or not wakeful.in_calendar(job.run_at) or not wakeful.in_calendar(job.expires_at)
        or job.dedup not in ('skip', 'raise', 'replace', 'debounce', 'rerun')
        or job.dedup is not null and job.dedup_key is null;

-- Refuses what no row can hold, with a sentence that names the option.
create function wakeful.check_asked(jobs wakeful.asked_job[]) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    select j.* into bad from unnest(jobs) j where wakeful.asks_wrongly(j) limit 1;
    if not found then
        return;
    elsif bad.task is null or bad.payload is null or bad.id is null then
        perform wakeful.refuse('WF003', 'a job needs an id, a task and a payload', 'Give all three; an empty payload is {}.');
    elsif jsonb_typeof(bad.payload) <> 'object' or jsonb_typeof(bad.metadata) <> 'object' then
        perform wakeful.refuse('WF003', case when jsonb_typeof(bad.payload) <> 'object' then 'payload is ' || jsonb_typeof(bad.payload)
            else 'metadata is ' || jsonb_typeof(bad.metadata) end || ', not a JSON object', 'Give an object such as {"id": 7}.');
    elsif bad.delay < interval '0' then
        perform wakeful.refuse('WF003', format('delay %s is negative', bad.delay), 'Give a delay of zero or more.');
    elsif bad.delay > wakeful.longest() then
        perform wakeful.refuse('WF003', format('delay %s is longer than %s', bad.delay, wakeful.longest()), 'Give a time that comes.');
    elsif bad.delay is not null and bad.run_at is not null then
        perform wakeful.refuse('WF003', 'both delay and run_at are given', 'Give one of them.');
    elsif not wakeful.in_calendar(bad.run_at) then
        perform wakeful.refuse('WF003', format('run_at %s is infinite, or not within the years 1 to 9999', bad.run_at),
            'Give a time that comes.');
    elsif not wakeful.in_calendar(bad.expires_at) then
        perform wakeful.refuse('WF003', format('expires_at %s is infinite, or not within the years 1 to 9999', bad.expires_at),
            'Give a time that comes; none at all for a job that does not expire.');
    elsif bad.dedup_key is null then
        perform wakeful.refuse('WF003', format('dedup %s is given without a dedup_key', bad.dedup), 'Give a dedup_key too.');
    end if;
    perform wakeful.refuse('WF003', format('dedup %s is not known', bad.dedup),
        'Use skip, raise, replace, debounce or rerun.');
end
$$;

-- What is left when the tasks are taken out that someone switched off, or that are off until switched on.
create function wakeful.without_switched_off(jobs wakeful.asked_job[]) returns wakeful.asked_job[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select j from unnest(jobs) j
        left join wakeful.control c on c.kind = 'task' and c.name = j.task
        where coalesce(c.enqueuing, not j.default_off, true)
        order by j.place);
end
$$;

-- The places of the rows that carry the poke: for each queue and task the ready one of the best rank, else the one due
-- first. (In plpgsql, whose plans are kept; a query in a function of language sql is planned at every call.)
create function wakeful.speakers(jobs wakeful.asked_job[], at timestamptz) returns integer[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality(jobs) = 1 then
        return case when wakeful.speaks_first(coalesce(jobs[1].queue, 'default'), jobs[1].task,
            wakeful.rank_of(jobs[1].priority),
            nullif(greatest(coalesce(jobs[1].run_at, at + jobs[1].delay, at), at), at)) then array[jobs[1].place] end;
    end if;
    return array(
        select q.place from (
            select distinct on (r.queue, r.task) r.queue, r.task, r.place, r.rank, r.due_at
            from (
                select coalesce(j.queue, 'default') as queue, j.task, j.place, wakeful.rank_of(j.priority) as rank,
                    nullif(greatest(coalesce(j.run_at, speakers.at + j.delay, speakers.at), speakers.at), speakers.at) as due_at
                from unnest(jobs) j
            ) r
            order by r.queue, r.task, r.due_at nulls first, r.rank, r.place
        ) q
        where wakeful.speaks_first(q.queue, q.task, q.rank, q.due_at));
end
$$;

-- A child without a correlation id of its own takes its parent's, if the parent is still live.
create function wakeful.correlation_of(parent_id uuid) returns uuid
    language sql stable
    set search_path = pg_catalog, pg_temp
    return (select j.correlation_id from wakeful.job j where j.id = correlation_of.parent_id);

-- When a UUIDv7 was made; -infinity for any other id.
create function wakeful.id_time(id uuid) returns timestamptz
    language sql immutable parallel safe strict
    return case when substr(id::text, 15, 1) = '7'
        then to_timestamp(('x0000' || translate(left(id::text, 13), '-', ''))::bit(64)::bigint / 1000.0)
        else '-infinity'::timestamptz end;

-- The ids of these jobs that are finished or dead already; null for none. A job is over only after its id was made, so
-- a UUIDv7 needs the partitions since that day alone.
create function wakeful.ids_already_over(jobs wakeful.asked_job[], at timestamptz) returns uuid[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    made timestamptz;
    ids uuid[];
begin
    select array_agg(j.id), min(wakeful.id_time(j.id)) into ids, made from unnest(jobs) j;
    -- A client's clock may be wrong by a day; one that is ahead of ours tells nothing.
    made := case when made > at then '-infinity' else made - interval '1 day' end;
    return (
        select array_agg(o.id) from (
            select f.id from wakeful.finished_job f where f.id = any (ids) and f.finished_at >= made
            union all
            select d.id from wakeful.dead_letter d where d.id = any (ids)
        ) o);
end
$$;

-- Refuses jobs for a queue that has as many waiting as it may. Up to a thousand are counted each time; beyond that the last count serves
-- for a quarter of a second, so that a long line does not slow down who joins it.
create function wakeful.refuse_when_full(jobs wakeful.asked_job[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    asked record;
    pending bigint;
begin
    for asked in
        select r.queue, r.max_pending, count(*) as jobs
        from unnest(jobs) j join wakeful.queue_policy r on r.queue = coalesce(j.queue, 'default')
        where r.max_pending is not null group by r.queue, r.max_pending order by r.queue
    loop
        pending := wakeful.pending(asked.queue, asked.max_pending);
        if pending + asked.jobs > asked.max_pending then
            perform wakeful.refuse('WF008',
                format('queue %s has %s jobs waiting and may have %s', asked.queue, pending, asked.max_pending),
                'Try again later, or let it have more.',
                jsonb_build_object('queue', asked.queue, 'pending', pending, 'max_pending', asked.max_pending));
        end if;
    end loop;
end
$$;

-- How many jobs of a queue wait: scheduled, in line, or parked behind a limit; each kind is counted no further than `most`.
create function wakeful.pending(queue text, most integer) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    at constant timestamptz := wakeful.now();
    waiting bigint;
begin
    if most > 1000 then
        select d.pending into waiting from wakeful.queue_depth d where d.queue = pending.queue and d.counted_at > at - interval '250 milliseconds';
        if found then
            return waiting;
        end if;
    end if;
    waiting := (select count(*) from (select from wakeful.job j where j.queue = pending.queue and j.state = 1 and j.limit_key is null limit most + 1) j)
        + (select count(*) from (select from wakeful.job j where j.queue = pending.queue and j.state = 1 and j.limit_key is not null limit most + 1) j)
        + (select count(*) from (select from wakeful.job j where j.queue = pending.queue and j.state = 0 limit most + 1) j);
    if most > 1000 then
        -- Whoever holds the row is counting too: nobody waits for it.
        perform from wakeful.queue_depth d where d.queue = pending.queue for update skip locked;
        if found then
            update wakeful.queue_depth d set pending = waiting, counted_at = at where d.queue = pending.queue;
        end if;
    end if;
    return waiting;
end
$$;

-- ==== 32_twins.sql
-- What becomes of an asked job that could not be inserted: its id is known already, or a live job has its dedup_key.
-- Promise: each such row ends joined to its twin by its mode, or inserted because the twin went away meanwhile; never
--   two live rows for one (task, dedup_key).
-- Locks: replace, debounce and rerun lock the twins' rows in id order and wait for them; skip and raise lock nothing.
create function wakeful.join_twins(jobs wakeful.asked_job[], over uuid[], poke boolean, at timestamptz)
    returns table (place integer, id uuid, action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    asked wakeful.asked_job;
    twin wakeful.job;
begin
    -- In id order, as settlements lock them: the loop below goes by key.
    perform from wakeful.job j where j.id = any (array(
        select t.id from unnest(jobs) w cross join lateral (
            select j.id from wakeful.job j where j.task = w.task and j.dedup_key = w.dedup_key limit 1) t
        where w.dedup in ('replace', 'debounce', 'rerun'))) order by j.id for update;
    foreach asked in array array(select j from unnest(jobs) j order by j.task, j.dedup_key, j.place) loop
        place := asked.place;
        id := asked.id;
        loop
            if asked.id = any (over) then
                action := 'resent';
                exit;
            end if;
            select j.* into twin from wakeful.job j where j.id = asked.id;
            if found then
                action := case when twin.created_at = at then 'inserted' else 'resent' end;
                exit;
            end if;
            select joined.id, joined.action into id, action from wakeful.join_twin(asked, poke, at) joined;
            exit when action is not null;
            -- The twin is gone: the row is free to be inserted, unless another one is quicker again.
            perform wakeful.insert_asked(array[asked], case when join_twins.poke then array[asked.place] end, at);
            -- A later statement again: the job that went away may have been this very one, and be over by now.
            over := over || wakeful.ids_already_over(array[asked], at);
            delete from wakeful.job j where j.id = asked.id and j.id = any (over) and j.created_at = at;
            id := asked.id;
        end loop;
        return next;
    end loop;
    -- The row that was to speak for its queue may be the one that was not inserted: then the best of the others does, and
    -- what this transaction believes to have said is forgotten.
    if join_twins.poke then
        perform set_config('wakeful.spoken', '', true);
        perform wakeful.poke_best(jobs, at);
    end if;
end
$$;

-- Pokes for the best of these jobs in each queue and task, unless the row itself does so at commit.
create function wakeful.poke_best(jobs wakeful.asked_job[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    if not wakeful.someone_hears() then
        return;
    end if;
    perform wakeful.poke(b.queue, b.task, b.run_at, b.rank, b.ready_at, b.id)
    from (
        select distinct on (j.queue, j.task) j.queue, j.task, j.run_at, j.rank, j.ready_at, j.id, j.pokes
        from wakeful.job j
        where j.id = any (array(select w.id from unnest(jobs) w)) and j.created_at = poke_best.at
        order by j.queue, j.task, not j.pokes, (j.ready_at is null), j.rank, j.run_at, j.id
    ) b where not b.pokes;
end
$$;

-- Joins one asked job to the live twin of its dedup_key; action is null when there is none any more.
create function wakeful.join_twin(asked wakeful.asked_job, poke boolean, at timestamptz, out id uuid, out action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    mode constant text := coalesce(asked.dedup, 'skip');
    due_at constant timestamptz := coalesce(asked.run_at, at + asked.delay, at);
    twin wakeful.job;
begin
    if mode in ('skip', 'raise') then
        select j.* into twin from wakeful.job j where j.task = asked.task and j.dedup_key = asked.dedup_key;
    else
        select j.* into twin from wakeful.job j where j.task = asked.task and j.dedup_key = asked.dedup_key for update;
    end if;
    -- One that is past its time is about to be cancelled: what joined it would be lost with it.
    if not found or twin.expires_at <= at and wakeful.expire_rows(array[twin.id], at) > 0 then
        return;
    end if;
    id := twin.id;
    if mode = 'raise' then
        perform wakeful.refuse('WF002', format('a live job of task %s has dedup_key %s already', asked.task, asked.dedup_key),
            'Wait for it to end, or enqueue with dedup => ''skip''.', jsonb_build_object('id', twin.id));
    elsif mode = 'skip' or mode = 'replace' and twin.state = 2 then
        action := 'skipped';
    elsif twin.state = 2 or twin.rerun is not null and mode <> 'debounce' then
        -- One that waits for its retry keeps what was asked for meanwhile: the newest payload is the last to run.
        id := wakeful.note_rerun(twin, asked, due_at);
        action := 'rerun';
    else
        perform wakeful.move_twin(twin, asked, due_at, mode, poke, at);
        action := case mode when 'debounce' then 'debounced' else 'replaced' end;
    end if;
end
$$;

-- Keeps the newest ask on the running row; its settlement makes the next job of it. Returns that job's id, which stays
-- the same however often it is asked for.
create function wakeful.note_rerun(twin wakeful.job, asked wakeful.asked_job, due_at timestamptz) returns uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    next_id constant uuid := coalesce((twin.rerun ->> 'id')::uuid, asked.id);
begin
    update wakeful.job j
    set rerun = to_jsonb(asked) || jsonb_build_object('id', next_id, 'run_at', due_at, 'delay', null,
        'correlation_id', coalesce(asked.correlation_id, wakeful.correlation_of(asked.parent_id), twin.correlation_id))
    where j.id = twin.id;
    return next_id;
end
$$;

-- Replaces payload and time of a job that has not started, or only pushes its time.
create function wakeful.move_twin(
    twin wakeful.job, asked wakeful.asked_job, due_at timestamptz, mode text, poke boolean, at timestamptz)
    returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    moved wakeful.job;
begin
    update wakeful.job j
    set payload = case when mode = 'debounce' then j.payload else asked.payload end,
        metadata = case when mode = 'debounce' then j.metadata else coalesce(asked.metadata, j.metadata) end,
        rank = wakeful.rank_of(coalesce(asked.priority, -j.rank)),
        expires_at = coalesce(asked.expires_at, j.expires_at),
        run_at = due_at,
        state = case when due_at > at then 0 else 1 end,
        -- One that was ready keeps its place in line.
        ready_at = case when due_at > at then null else coalesce(j.ready_at, at) end,
        -- Its key may be another one now, if it was parked.
        limit_key = null,
        updated_at = at
    where j.id = twin.id
    returning * into moved;
    perform wakeful.give_turns(array[moved.id]) where moved.state = 1;
    perform wakeful.poke(moved.queue, moved.task, moved.run_at, moved.rank, moved.ready_at, moved.id) where move_twin.poke;
end
$$;

-- ==== 34_enqueue_forms.sql
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

-- ==== 36_hand_over.sql
-- Handing over: a job that is enqueued while a worker sleeps begins as that worker's, in the very commit that makes it.
-- Promise: as in a claim: the attempt is counted, the epoch raised, and worker and job are on disk before the worker hears of it. Until the worker
--   confirms (accept_1) the job has a lease of its own, of five seconds: a worker that has just died, or stands still, keeps it no longer than
--   that. Nobody can tell then whether it was started, so that attempt counts, and a job with one attempt only is not handed over.
--   A worker has at most one job that it has not confirmed, and sends the confirmation before it starts the handler.
-- Format: a JSON array of texts, as told_of writes it. Whoever may connect may listen and notify: so this goes by a channel whose name
--   is a secret of the worker's, kept in a table that no role may read, and never part of a statement's text.
-- Locks: two advisory locks a worker. Its listener's session shares one for as long as it lives, whoever hands over holds the other to the end
--   of its transaction. accept_1: a key share on the worker's row, then the job's, unless someone holds it.
create function wakeful.handed_lease() returns interval
    language sql immutable parallel safe
    return interval '5 seconds';

create function wakeful.ear_lock(worker_id uuid) returns bigint
    language sql immutable parallel safe
    return hashtextextended(worker_id::text, 1);

-- What a listener's session calls, once: it listens on the channel on which jobs are handed over, and as long as it lives, it shows that somebody is
-- there to hear.
create function wakeful.attend_1(worker_id uuid, channel text) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_advisory_lock_shared(wakeful.ear_lock(worker_id));
    execute format('listen %I', channel);
end
$$;

-- Whether the worker's listener lives, and nobody else is handing it a job; from here to the end of the transaction nobody does. (This and the
-- next in language sql: they become part of what calls them.)
create function wakeful.begins_to_hand(worker_id uuid) returns boolean
    language sql volatile
    return not (pg_try_advisory_lock(wakeful.ear_lock(worker_id)) and pg_advisory_unlock(wakeful.ear_lock(worker_id)))
        and pg_try_advisory_xact_lock(hashtextextended(worker_id::text, 2));

-- What a worker is told of a job.
create function wakeful.told_of(
    id uuid, task text, queue text, payload jsonb, max_attempts integer, rank smallint, at timestamptz, correlation_id uuid, parent_id uuid, tenant text,
    created_by text, metadata jsonb) returns text
    language sql immutable
    return array_to_json(array[id::text, task, queue, payload::text, max_attempts::text, rank::text, encode(timestamptz_send(at), 'hex'),
        correlation_id::text, parent_id::text, tenant, created_by, metadata::text])::text;

-- Confirms jobs that were handed to the worker: its own lease covers them from now on. `enough`: hand it no more until it says so. Returns a row for
-- each that is not the worker's any more (stale, settled), or that someone holds just now (locked): those are to be confirmed again.
create function wakeful.accept_1(worker_id uuid, ids uuid[], epochs bigint[], enough boolean) returns table (id uuid, refused text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    passed uuid[];
begin
    perform wakeful.hold_worker(worker_id);
    passed := array(
        select j.id from wakeful.job j join unnest(ids, epochs) s(id, epoch) on s.id = j.id and s.epoch = j.epoch
        where j.id = any (ids) and j.worker_id = accept_1.worker_id and j.state + 0 = 2 order by j.id for update of j skip locked);
    -- A lease that its task has given it meanwhile stays.
    update wakeful.job j set lease_expires_at = null
    where j.id = any (passed) and j.lease_expires_at = j.started_at + wakeful.handed_lease();
    if enough then
        update wakeful.sleeper s set takes = null where s.worker_id = accept_1.worker_id and s.takes is not null;
    end if;
    if cardinality(passed) < cardinality(ids) then
        return query
        select r.id, case when exists (
            select from wakeful.job j join unnest(ids, epochs) s(id, epoch) on s.id = j.id and s.epoch = j.epoch
            where j.id = r.id and j.worker_id = accept_1.worker_id and j.state + 0 = 2) then 'locked' else r.refused end
        from wakeful.refusals(accept_1.worker_id, ids, epochs, passed) r;
    end if;
end
$$;

-- ==== 40_line.sql
-- The line: which ready jobs come first.
-- Promise: each (queue, task) pair is a range of the index of its own, so jobs of other tasks cost nothing however many
--   there are.
-- Locks: choose locks the rows that are to be taken, skipping locked ones; the others lock nothing.

-- A claimed job, or (id null, as the last row of a claim) the report: started_at is when the call began, due_in the number of seconds from
-- then until there is something to look for again, null when nothing is known of; suspects tells that jobs wait which must run
-- alone; cancelled are jobs of this worker that were asked to stop; refused are settlements that did not pass the fence; schedules
-- are those to be fired; held_back tells that more is in line for the next slot that comes free, but not to be held ready behind
-- busy ones.
create type wakeful.claimed_job as (
    id uuid, task text, queue text, payload jsonb, attempt integer, max_attempts integer, epoch bigint, rank smallint,
    ready_at timestamptz, run_at timestamptz, created_at timestamptz, started_at timestamptz, lease_expires_at timestamptz,
    expires_at timestamptz, correlation_id uuid, parent_id uuid, origin_id uuid, tenant text, created_by text,
    metadata jsonb, attempts jsonb, saved jsonb, due_in double precision, suspects boolean, cancelled uuid[], refused uuid[],
    schedules jsonb, held_back boolean
);

create type wakeful.position as (rank smallint, ready_at timestamptz, id uuid);

-- Locks up to `want` ready jobs, the first in line over the given queues and tasks, and returns where their rows are (which
-- holds until the transaction changes them). `after` holds a position for each queue: the scan starts behind it, and so does
-- not walk over index entries that vacuum could not remove yet. `suspects`: those that must run alone, and no others.
create function wakeful.choose(
    queues text[], tasks text[], want integer, after wakeful.position[], suspects boolean default false)
    returns tid[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    chosen tid[] := '{}';
    tids tid[];
    seen integer;
    last_rank smallint;
    last_ready_at timestamptz;
    last_id uuid;
begin
    if choose.suspects then
        -- They have an index of their own, and are few.
        return array(
            select s.tid
            from unnest(queues) q(queue)
            cross join unnest(tasks) t(task)
            cross join lateral (
                select j.ctid as tid from wakeful.job j
                where j.queue = q.queue and j.task = t.task and j.state = 1 and j.limit_key is null and j.suspect
                order by j.rank, j.ready_at, j.id
                limit choose.want
                for update skip locked
            ) s
            limit choose.want);
    end if;
    if cardinality(queues) = 1 and cardinality(tasks) = 1 then
        -- One range is in order already.
        return array(
            select j.ctid from wakeful.job j
            where j.queue = queues[1] and j.task = tasks[1] and j.state = 1 and j.limit_key is null and not j.suspect
              and (j.rank, coalesce(j.turn, j.ready_at), j.id) > (after[1].rank, after[1].ready_at, after[1].id)
            order by j.rank, coalesce(j.turn, j.ready_at), j.id
            limit choose.want
            for update skip locked);
    end if;
    loop
        with candidate as materialized (
            select c.tid, c.rank, c.ready_at, c.id
            from unnest(queues, after) q(queue, rank, ready_at, id)
            cross join unnest(tasks) t(task)
            cross join lateral (
                select j.ctid as tid, j.rank, coalesce(j.turn, j.ready_at) as ready_at, j.id
                from wakeful.job j
                where j.queue = q.queue and j.task = t.task and j.state = 1 and j.limit_key is null and not j.suspect
                  and (j.rank, coalesce(j.turn, j.ready_at), j.id) > (q.rank, q.ready_at, q.id)
                order by j.rank, coalesce(j.turn, j.ready_at), j.id
                limit choose.want
            ) c
            order by c.rank, c.ready_at, c.id
            limit choose.want
        )
        select array(select c.tid from candidate c), last.rank, last.ready_at, last.id
        into tids, last_rank, last_ready_at, last_id
        from (select) one left join (select c.rank, c.ready_at, c.id from candidate c offset choose.want - 1) last on true;
        seen := cardinality(tids);
        tids := array(
            select j.ctid from wakeful.job j
            where j.ctid = any (tids) and j.state + 0 = 1
            limit choose.want - cardinality(chosen)
            for update skip locked);
        chosen := chosen || tids;
        -- Rows that others have locked do not make the claim short: those behind them are looked at.
        exit when cardinality(chosen) = choose.want or seen < choose.want;
        after := array(
            select greatest(p, row(last_rank, last_ready_at, last_id)::wakeful.position) from unnest(after) p);
    end loop;
    return chosen;
end
$$;

-- A queue and task in which a job is in line behind `after`: one that someone else has locked, or that just came. Nulls
-- for none.
create function wakeful.some_ready(
    queues text[], tasks text[], after wakeful.position[], out queue text, out task text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    select q.queue, t.task into queue, task
    from unnest(queues, after) q(queue, rank, ready_at, id)
    cross join unnest(tasks) t(task)
    cross join lateral (
        select from wakeful.job j
        where j.queue = q.queue and j.task = t.task and j.state = 1 and j.limit_key is null and not j.suspect
          and (j.rank, coalesce(j.turn, j.ready_at), j.id) > (q.rank, q.ready_at, q.id)
        order by j.rank, coalesce(j.turn, j.ready_at), j.id
        limit 1) r
    limit 1;
end
$$;

-- Whether one is in line, and still is at the last of so many looks, two milliseconds apart: one that another claim has taken, and is
-- about to commit, is gone by then.
create function wakeful.stays_ready(queues text[], tasks text[], after wakeful.position[], looks integer) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    for look in 1..looks loop
        if (wakeful.some_ready(queues, tasks, after)).queue is null then
            return false;
        end if;
        perform pg_sleep(0.002) where look < looks;
    end loop;
    return true;
end
$$;

-- Whether a job of these queues and tasks waits that must run alone.
create function wakeful.suspects_wait(queues text[], tasks text[]) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    return exists (
        select from wakeful.job j where j.state = 1 and j.suspect and j.queue = any (queues) and j.task = any (tasks));
end
$$;

-- The pairs of queue and task that have live jobs waiting, found by skipping from one to the next in the index.
create function wakeful.waiting_pairs(out queue text, out task text) returns setof record
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    return query
    with recursive ready as (
        (select j.queue, j.task from wakeful.job j where j.state = 1 and j.limit_key is null order by j.queue, j.task limit 1)
        union all
        select n.queue, n.task from ready r cross join lateral (
            select j.queue, j.task from wakeful.job j
            where j.state = 1 and j.limit_key is null and (j.queue, j.task) > (r.queue, r.task) order by j.queue, j.task limit 1) n
    ), scheduled as (
        (select j.queue, j.task from wakeful.job j where j.state = 0 order by j.queue, j.task limit 1)
        union all
        select n.queue, n.task from scheduled s cross join lateral (
            select j.queue, j.task from wakeful.job j
            where j.state = 0 and (j.queue, j.task) > (s.queue, s.task) order by j.queue, j.task limit 1) n
    )
    select r.queue::text, r.task::text from ready r union select s.queue::text, s.task::text from scheduled s
    union
    -- Parked ones that may start.
    select p.queue::text, p.task::text
    from (select f.key from wakeful.freed_slot f union select g.key from wakeful.gate g where g.wake_at is not null) k
    cross join lateral (select j.queue, j.task from wakeful.job j where j.limit_key = k.key and j.state = 1 limit 1) p;
end
$$;

-- ==== 41_gate.sql
-- Gates: how many jobs may start now, of a task, of a queue, of a key, or behind a breaker.
-- Promise: a limit is never exceeded over all workers. Who wants to start jobs behind a gate locks it, and counts what runs in a later
--   statement. A slot comes free when its job does not run any more, however that came about.
-- Locks: an advisory lock for each gate, to the end of the transaction, and the rows of breakers that are not trusted. Nobody waits for
--   either: who finds one taken comes back in a moment. In a transaction with an old snapshot all gates are shut.

-- A queue and task of which something is said. The gates that it is behind are null where there are none.
create type wakeful.steered_pair as (
    queue text, task text, task_gate text, queue_gate text, breaker text, keyed_by text, key_path text[], limited boolean,
    fair boolean, ageing interval
);

-- A gate with the number of jobs that may pass it now (null: any), the seconds until it is worth asking again, and whether someone else
-- has it.
create type wakeful.gate_state as (name text, room integer, wait double precision, busy boolean);

create function wakeful.task_gate(task text) returns text
    language sql immutable parallel safe return 'task ' || task;

create function wakeful.queue_gate(queue text) returns text
    language sql immutable parallel safe return 'queue ' || queue;

-- The gate of a key. A long one is told by its hash; jobs without the key share a gate.
create function wakeful.key_gate(task text, key text) returns text
    language sql immutable parallel safe
    return 'task ' || task || ' key ' || case when octet_length(key) > 200 then md5(key) else coalesce(key, '') end;

-- The pairs of which something is said that changes how they are claimed.
create function wakeful.steered_pairs(queues text[], tasks text[]) returns wakeful.steered_pair[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select row(q.queue, t.task,
            case when p.keyed_by is null and num_nonnulls(p.concurrency, p.every) > 0 then wakeful.task_gate(t.task) end,
            case when num_nonnulls(r.concurrency, r.every) > 0 then wakeful.queue_gate(q.queue) end,
            p.breaker, p.keyed_by, p.key_path, p.task is not null or num_nonnulls(r.concurrency, r.every) > 0,
            coalesce(r.fair, false), r.ageing)::wakeful.steered_pair
        from unnest(queues) q(queue)
        cross join unnest(tasks) t(task)
        left join wakeful.task_policy p on p.task = t.task
        left join wakeful.queue_policy r on r.queue = q.queue and (num_nonnulls(r.concurrency, r.every, r.ageing) > 0 or r.fair)
        where p.task is not null or r.queue is not null);
end
$$;

-- Takes those of the gates that nobody else has.
create function wakeful.take_gates(names text[]) returns text[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select n.name from unnest(names) n(name)
        where pg_try_advisory_xact_lock(hashtextextended('wakeful.gate ' || n.name, 0)));
end
$$;

-- How many starts the rate of a gate allows now: one every `every`, `burst` at once.
create function wakeful.tokens(arrives_at timestamptz, every interval, burst integer, at timestamptz) returns integer
    language sql immutable parallel safe
    return burst - least(ceil(extract(epoch from greatest(arrives_at - at, interval '0')) / extract(epoch from every)), 2000000000)::integer;

-- The seconds until it allows one.
create function wakeful.token_in(arrives_at timestamptz, every interval, burst integer, at timestamptz) returns double precision
    language sql immutable parallel safe
    return greatest(0.001, extract(epoch from arrives_at - at - (burst - 1) * every))::double precision;

-- The state of gates that the caller has taken, of a task, a queue, or a key of `task`.
create function wakeful.gate_states(names text[], tasks text[], queues text[], at timestamptz) returns wakeful.gate_state[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return array(
        select row(s.name, least(s.concurrency - s.running, s.tokens),
            case when s.tokens <= 0 then wakeful.token_in(s.arrives_at, s.every, s.burst, gate_states.at) end,
            false)::wakeful.gate_state
        from (
            select n.name, l.concurrency, l.every, l.burst, g.arrives_at,
                case when l.every is not null then wakeful.tokens(g.arrives_at, l.every, l.burst, gate_states.at) end as tokens,
                case when l.concurrency is null then 0
                    when n.queue is not null then (
                        select count(*) from wakeful.job j where j.queue = n.queue and j.state = 2 and j.queue_slot)
                    else (select count(*) from wakeful.job j where j.limit_key = n.name and j.state = 2) end::integer as running
            from unnest(names, tasks, queues) n(name, task, queue)
            cross join lateral (
                select p.concurrency, p.every, p.burst from wakeful.task_policy p where p.task = n.task and n.queue is null
                union all
                select r.concurrency, r.every, r.burst from wakeful.queue_policy r where r.queue = n.queue
            ) l
            left join wakeful.gate g on g.key = n.name
        ) s);
end
$$;

-- The state of the breakers that are not trusted, of those named; the others do not matter. One that is to be asked for probes is
-- locked.
create function wakeful.breaker_states(names text[], at timestamptz) returns wakeful.gate_state[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    states wakeful.gate_state[] := '{}';
    seen wakeful.breaker;
    held wakeful.breaker;
begin
    for seen in select b.* from wakeful.breaker b where (b.attentive or b.tried_at is null) and b.name = any (names) order by b.name loop
        if seen.state = 'open' and seen.probe_at > at then
            states := states || row(seen.name, 0, null, false)::wakeful.gate_state;
            continue;
        end if;
        select b.* into held from wakeful.breaker b where b.name = seen.name for update skip locked;
        if found then
            states := states || row(seen.name, wakeful.room_behind(held, at), null, false)::wakeful.gate_state;
        else
            states := states || row(seen.name, 0, null, true)::wakeful.gate_state;
        end if;
    end loop;
    return states;
end
$$;

-- The state of all gates of these pairs but those of keys.
create function wakeful.gates_of(pairs wakeful.steered_pair[], at timestamptz) returns wakeful.gate_state[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    names text[];
    tasks text[];
    queues text[];
    taken text[];
begin
    select array_agg(g.name), array_agg(g.task), array_agg(g.queue) into names, tasks, queues
    from (
        select p.task_gate as name, p.task, null as queue from unnest(pairs) p where p.task_gate is not null
        union
        select p.queue_gate, null, p.queue from unnest(pairs) p where p.queue_gate is not null
        order by 1
    ) g;
    taken := wakeful.take_gates(names);
    -- A later statement than the one that took them.
    return array(select s from unnest(wakeful.gate_states(names, tasks, queues, at)) s where s.name = any (taken))
        || array(select row(n.name, 0, null, true)::wakeful.gate_state from unnest(names) n(name) where n.name <> all (taken))
        || array(
            select row('breaker ' || b.name, b.room, b.wait, b.busy)::wakeful.gate_state
            from unnest(wakeful.breaker_states(array(
                select distinct p.breaker from unnest(pairs) p where p.breaker is not null), at)) b);
end
$$;

-- A running job that counts against a limit has ended, by whichever end.
create type wakeful.slot as (queue text, task text, limit_key text);

-- Has whoever waits for these slots look for them: what is parked behind a key is marked, and sleepers are poked.
create function wakeful.free_slots(slots wakeful.slot[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
begin
    insert into wakeful.freed_slot (task, key)
    select distinct s.task, s.limit_key from unnest(slots) s
    where exists (select from wakeful.task_policy p where p.task = s.task and p.keyed_by is not null);
    -- Who is parked behind it, else who is in line: of the same task, or of any if the slot was the queue's.
    perform wakeful.poke(w.queue, w.task, wakeful.now(), null, null, null)
    from (
        select distinct coalesce(parked.queue, same.queue, other.queue) as queue, coalesce(parked.task, same.task, other.task) as task
        from (select distinct s.queue, s.task, s.limit_key from unnest(slots) s) s
        left join lateral (
            select j.queue, j.task from wakeful.job j where j.limit_key = s.limit_key and j.state = 1
            order by j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) parked on true
        left join lateral (
            select j.queue, j.task from wakeful.job j
            where parked.queue is null and j.queue = s.queue and j.task = s.task and j.state = 1 and j.limit_key is null
            order by j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) same on true
        left join lateral (
            select j.queue, j.task from wakeful.job j
            where parked.queue is null and same.queue is null and j.queue = s.queue and j.state = 1 and j.limit_key is null
            order by j.queue, j.task, j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) other on true
    ) w where w.queue is not null;
end
$$;

-- Keeps in mind that jobs are parked behind these keys, which the caller has taken and let some through: until when, or that
-- there is room for more.
create function wakeful.mark_gates(keys text[], tasks text[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    found record;
begin
    for found in
        select s.name, s.room, s.wait, k.task, w.id is not null as parked
        from unnest(wakeful.gate_states(keys, tasks, null, at)) s
        join unnest(keys, tasks) k(key, task) on k.key = s.name
        -- Not exists: as a subquery of the list it may be answered by a look at all jobs.
        left join lateral (
            select j.id from wakeful.job j where j.limit_key = s.name and j.state = 1
            order by j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) w on true
    loop
        if found.parked and found.room > 0 then
            insert into wakeful.freed_slot (task, key) values (found.task, found.name);
        end if;
        update wakeful.gate g
        set wake_at = case when found.parked and found.wait is not null then mark_gates.at + make_interval(secs => found.wait) end
        where g.key = found.name and (g.wake_at is not null or found.parked and found.wait is not null);
    end loop;
end
$$;

-- The seconds, from `since` on, until the next probe of a breaker, or the next start that a rate allows, of jobs of these tasks; null for
-- none. What is overdue is left a moment from now.
create function wakeful.next_gate(tasks text[], since timestamptz) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    soon constant timestamptz := wakeful.now() + interval '10 milliseconds';
    probe_at timestamptz;
    wake_at timestamptz;
begin
    select min(b.probe_at) into probe_at from wakeful.breaker b
    where b.state = 'open' and exists (select from wakeful.task_policy p where p.breaker = b.name and p.task = any (tasks));
    select min(g.wake_at) into wake_at from wakeful.gate g where g.task = any (tasks) and g.wake_at is not null;
    return case when num_nonnulls(probe_at, wake_at) > 0 then extract(epoch from greatest(soon, least(probe_at, wake_at)) - since) end;
end
$$;

-- ==== 41_pick.sql
-- Picking: which jobs of steered tasks and queues may start now.
-- Promise: in the order of the line, as far as the gates allow. Jobs behind a gate of a whole task, queue or breaker stay in line, and their
--   range of the index is not read while it is shut. Jobs behind the full gate of a key are parked: taken out of line once,
--   and found by their key when a slot comes free. So nobody walks over the same blocked jobs again and again.
-- Locks: gates (see there); the jobs that are picked or parked, skipping locked ones; an advisory lock, shared, for each task of which jobs are
--   parked or were.

-- A job that may start. `rank` and `place` say where it stands among jobs of other tasks, `ordinal` among those picked with it,
-- `line_rank` is its own. `key` is the gate of its key.
create type wakeful.pick as (
    id uuid, queue text, task text, rank smallint, place timestamptz, ordinal bigint, line_rank smallint, turn timestamptz,
    limit_key text, queue_slot boolean, breaker text, key text, parked boolean
);

-- What picking came to. `keys` are gates of keys behind which jobs are parked, and which have to be marked once the picked jobs have
-- started; busy: something may be had in a moment; held_back: there is more, but no slot that is free.
create type wakeful.picking as (picks wakeful.pick[], keys text[], key_tasks text[], busy boolean, held_back boolean);

-- The ranks at which jobs of this pair are in line.
create function wakeful.ranks_in(queue text, task text) returns smallint[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    ranks smallint[] := '{}';
    next smallint := -101;
begin
    loop
        select j.rank into next from wakeful.job j
        where j.queue = ranks_in.queue and j.task = ranks_in.task and j.state = 1 and j.limit_key is null and j.rank > next
        order by j.rank limit 1;
        exit when not found;
        ranks := ranks || next;
    end loop;
    return ranks;
end
$$;

-- The first `look` jobs in line of these pairs, in order. In a queue with ageing each rank is a line of its own, and who has waited
-- counts as higher. A fair queue stands among others by the oldest of its first jobs.
create function wakeful.heads(pairs wakeful.steered_pair[], look integer, alone boolean, at timestamptz) returns wakeful.pick[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
begin
    return array(
        select row(o.id, o.queue, o.task, o.rank, o.place, row_number() over (order by o.rank, o.place, o.line_place, o.id),
            o.line_rank, o.turn, coalesce(o.key, o.task_gate, o.queue_gate), o.queue_gate is not null, o.breaker, o.key, false)::wakeful.pick
        from (
            select h.id, p.queue, p.task, p.task_gate, p.queue_gate, p.breaker, h.turn, h.line_place, h.rank as line_rank,
                greatest(-100, case when p.ageing is null then h.rank
                    else h.rank - floor(extract(epoch from heads.at - h.ready_at) / extract(epoch from p.ageing)) end)::smallint as rank,
                case when p.fair then min(h.ready_at) over (partition by p.queue) else h.ready_at end as place,
                case p.keyed_by when 'tenant' then wakeful.key_gate(p.task, h.tenant)
                    when 'payload' then wakeful.key_gate(p.task, h.payload #>> p.key_path) end as key
            from unnest(pairs) p
            cross join lateral unnest(case when p.ageing is null then array[null::smallint] else wakeful.ranks_in(p.queue, p.task) end) r(rank)
            cross join lateral (
                (select j.id, j.rank, j.ready_at, j.turn, coalesce(j.turn, j.ready_at) as line_place, j.tenant, j.payload
                from wakeful.job j
                where not heads.alone and r.rank is null and j.queue = p.queue and j.task = p.task and j.state = 1
                  and j.limit_key is null and not j.suspect and (j.expires_at is null or j.expires_at > heads.at)
                order by j.rank, coalesce(j.turn, j.ready_at), j.id limit look)
                union all
                (select j.id, j.rank, j.ready_at, j.turn, coalesce(j.turn, j.ready_at), j.tenant, j.payload
                from wakeful.job j
                where not heads.alone and r.rank is not null and j.queue = p.queue and j.task = p.task and j.state = 1
                  and j.limit_key is null and j.rank = r.rank and not j.suspect and (j.expires_at is null or j.expires_at > heads.at)
                order by j.rank, coalesce(j.turn, j.ready_at), j.id limit look)
                union all
                (select j.id, j.rank, j.ready_at, j.turn, coalesce(j.turn, j.ready_at), j.tenant, j.payload
                from wakeful.job j
                where heads.alone and (r.rank is null or j.rank = r.rank) and j.queue = p.queue and j.task = p.task and j.state = 1
                  and j.limit_key is null and j.suspect and (j.expires_at is null or j.expires_at > heads.at)
                order by j.rank, j.ready_at, j.id limit look)
            ) h
        ) o
        order by o.rank, o.place, o.line_place, o.id
        limit look);
end
$$;

-- The first jobs of these pairs that are parked behind these keys, as many of each as there is room for.
create function wakeful.parked_heads(states wakeful.gate_state[], pairs wakeful.steered_pair[], want integer, at timestamptz)
    returns wakeful.pick[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    queues constant text[] := array(select distinct p.queue from unnest(pairs) p);
begin
    return array(
        select row(h.id, h.queue, h.task, h.rank, h.ready_at, row_number() over (order by h.rank, h.line_place, h.id) - 1000000,
            h.rank, h.turn, s.name, p.queue_gate is not null, p.breaker, s.name, true)::wakeful.pick
        from unnest(states) s
        cross join lateral (
            select j.id, j.queue, j.task, j.rank, j.ready_at, j.turn, coalesce(j.turn, j.ready_at) as line_place
            from wakeful.job j
            where j.limit_key = s.name and j.state = 1 and (j.expires_at is null or j.expires_at > parked_heads.at)
              -- Others of the key may be in a queue that is paused, or that this claim does not serve.
              and j.queue::text = any (queues)
            order by j.rank, coalesce(j.turn, j.ready_at), j.id
            limit least(s.room, want)
        ) h
        join unnest(pairs) p on p.queue = h.queue and p.task = h.task
        where s.room > 0);
end
$$;

-- Goes through candidates in order: who passes all its gates, and who has to be parked because only its key is full. Of those behind
-- gates `free` may pass; cut: there were more; tried: so many were gone through.
create function wakeful.pass_gates(
    candidates wakeful.pick[], want integer, free integer, inout gates wakeful.gate_state[],
    out passed wakeful.pick[], out parked wakeful.pick[], out cut boolean, out tried integer)
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    names constant text[] := array(select g.name from unnest(gates) g);
    rooms integer[] := array(select g.room from unnest(gates) g);
    candidate wakeful.pick;
    places integer[];
    shut integer[];
    i integer;
    left_free integer := free;
begin
    passed := '{}';
    parked := '{}';
    cut := false;
    tried := 0;
    foreach candidate in array candidates loop
        exit when cardinality(passed) >= want;
        tried := tried + 1;
        if candidate.limit_key is null and candidate.breaker is null then
            passed := passed || candidate;
            continue;
        end if;
        places := array_remove(array[
            array_position(names, 'breaker ' || candidate.breaker),
            array_position(names, candidate.limit_key),
            case when candidate.queue_slot then nullif(array_position(names, wakeful.queue_gate(candidate.queue)),
                array_position(names, candidate.limit_key)) end], null);
        shut := '{}';
        foreach i in array places loop
            if rooms[i] <= 0 then
                shut := shut || i;
            end if;
        end loop;
        if shut = '{}' and left_free > 0 then
            passed := passed || candidate;
            left_free := left_free - 1;
            foreach i in array places loop
                rooms[i] := rooms[i] - 1;
            end loop;
        elsif shut = '{}' then
            cut := true;
        elsif cardinality(shut) = 1 and names[shut[1]] = candidate.key and not (gates[shut[1]]).busy and not candidate.parked then
            parked := parked || candidate;
        end if;
    end loop;
    gates := array(
        select row(g.name, r.room, g.wait, g.busy)::wakeful.gate_state
        from unnest(gates) with ordinality g(name, room, wait, busy, place)
        join unnest(rooms) with ordinality r(room, place) using (place) order by g.place);
end
$$;

-- Locks the first `most` of these jobs that nobody else has, and returns those.
create function wakeful.lock_picks(picks wakeful.pick[], most integer) returns wakeful.pick[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    ids constant uuid[] := array(select p.id from unnest(picks) p);
    locked constant uuid[] := array(
        select j.id from wakeful.job j
        where j.id = any (ids) and j.state + 0 = 1
        order by array_position(ids, j.id) limit most
        for update skip locked);
begin
    if cardinality(locked) = cardinality(picks) then
        return picks;
    end if;
    return array(select p from unnest(picks) p where p.id = any (locked));
end
$$;

-- Takes jobs out of line that wait for their key.
create function wakeful.park(picks wakeful.pick[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
declare
    held constant wakeful.pick[] := wakeful.lock_picks(picks, cardinality(picks));
    ids constant uuid[] := array(select h.id from unnest(held) h);
begin
    update wakeful.job j set limit_key = h.key, updated_at = park.at
    from unnest(held) h where j.id = any (ids) and j.id = h.id;
end
$$;

-- The states of gates, with those of the candidates' keys that are not among them yet.
create function wakeful.with_keys(gates wakeful.gate_state[], candidates wakeful.pick[], at timestamptz) returns wakeful.gate_state[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    names text[];
    tasks text[];
    taken text[];
begin
    select array_agg(k.key), array_agg(k.task) into names, tasks
    from (
        select distinct c.key, c.task from unnest(candidates) c
        where c.key is not null and c.key <> all (array(select g.name from unnest(gates) g))
    ) k;
    if names is null then
        return gates;
    end if;
    taken := wakeful.take_gates(names);
    return gates
        || array(select s from unnest(wakeful.gate_states(names, tasks, null, at)) s where s.name = any (taken))
        || array(select row(n.name, 0, null, true)::wakeful.gate_state from unnest(names) n(name) where n.name <> all (taken));
end
$$;

-- Holds off a change of what is said of these tasks to the end of the transaction, and returns those whose keys are still as the pairs
-- have it: what is parked behind the key of a limit that is gone would be looked for by nobody. Nobody waits: who changes a policy
-- is soon done.
create function wakeful.keep_keyed(pairs wakeful.steered_pair[], tasks text[]) returns text[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    held constant text[] := array(
        select distinct t.task from unnest(tasks) t(task)
        where pg_try_advisory_xact_lock_shared(hashtextextended('wakeful.keyed ' || t.task, 0)));
begin
    -- A later statement than the one that held it off.
    return array(
        select p.task from wakeful.task_policy p
        where p.task = any (held) and exists (
            select from unnest(pairs) s where s.task = p.task and (s.keyed_by, s.key_path) is not distinct from (p.keyed_by, p.key_path)));
end
$$;

-- Takes the gates of keys behind which jobs are parked that may start: a slot came free, or the rate allows one. busy: someone else
-- has one of them.
create function wakeful.revive(
    pairs wakeful.steered_pair[], most integer, at timestamptz, out keys text[], out key_tasks text[], out busy boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    tasks constant text[] := array(select distinct p.task from unnest(pairs) p where p.keyed_by is not null);
    kept text[];
    taken text[];
    found_keys integer;
begin
    busy := false;
    select array_agg(k.key), array_agg(k.task) into keys, key_tasks
    from (
        select distinct f.key, f.task from (
            select f.key, f.task from unnest(tasks) t(task) cross join lateral (
                select f.key, f.task from wakeful.freed_slot f where f.task = t.task limit most) f
            union all
            select g.key, g.task from unnest(tasks) t(task) cross join lateral (
                select g.key, g.task from wakeful.gate g
                where g.task = t.task and g.wake_at is not null and g.wake_at <= revive.at order by g.wake_at limit most) g
        ) f limit most
    ) k;
    if keys is null then
        keys := '{}';
        key_tasks := '{}';
        return;
    end if;
    found_keys := cardinality(keys);
    kept := wakeful.keep_keyed(pairs, key_tasks);
    taken := wakeful.take_gates(array(select k.key from unnest(keys, key_tasks) k(key, task) where k.task = any (kept)));
    select coalesce(array_agg(k.key), '{}'), coalesce(array_agg(k.task), '{}') into keys, key_tasks
    from unnest(keys, key_tasks) k(key, task) where k.key = any (taken);
    busy := cardinality(keys) < found_keys;
    delete from wakeful.freed_slot f where f.task = any (key_tasks) and f.key = any (keys);
end
$$;

-- Picks up to `want` jobs of these pairs, of those behind gates up to `free`; below zero: so many are held ready already.
create function wakeful.pick(pairs wakeful.steered_pair[], want integer, free integer, alone boolean, at timestamptz)
    returns wakeful.picking
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    limited constant boolean := exists (select from unnest(pairs) p where p.limited);
    made wakeful.picking;
    gates wakeful.gate_state[] := '{}';
    open wakeful.steered_pair[] := pairs;
    fresh wakeful.pick[];
    passing record;
    seen uuid[] := '{}';
    -- Turns that have been taken are not to be had any more by who comes next: few are held ready behind busy slots. (With 16 in each of
    -- four processes another tenant's ten jobs waited for up to 141 of who was there first.)
    most constant integer := least(want, greatest(0, free + 4));
    look constant integer := greatest(most + 16, 32);
    looked integer;
    tried integer;
    kept text[];
    missed boolean := false;
begin
    made := row('{}', '{}', '{}', false, false);
    if limited and current_setting('transaction_isolation') <> 'read committed' then
        -- What an old snapshot counts is not what runs.
        open := array(select p from unnest(pairs) p where not p.limited);
    elsif limited then
        gates := wakeful.gates_of(pairs, at);
        if free > 0 and not alone then
            select r.keys, r.key_tasks, r.busy into made.keys, made.key_tasks, missed from wakeful.revive(pairs, 64, at) r;
            gates := gates || wakeful.gate_states(made.keys, made.key_tasks, null, at);
        end if;
    end if;
    for round in 1..8 loop
        if limited then
            open := array(
                select p from unnest(open) p
                where not exists (
                    select from unnest(gates) g
                    where g.room <= 0 and g.name in (p.task_gate, p.queue_gate, 'breaker ' || p.breaker)));
        end if;
        fresh := wakeful.heads(open, look + cardinality(seen), alone, at);
        looked := cardinality(fresh);
        if seen <> '{}' then
            fresh := array(select c from unnest(fresh) c where c.id <> all (seen) order by c.ordinal);
        end if;
        if round = 1 and made.keys <> '{}' then
            fresh := array(
                select c from (select u.* from unnest(fresh) u union all select u.* from unnest(wakeful.parked_heads(gates, pairs, most, at)) u) c
                order by c.rank, c.place, c.ordinal);
        end if;
        exit when fresh = '{}';
        if limited then
            gates := wakeful.with_keys(gates, fresh, at);
            select * into passing from wakeful.pass_gates(fresh, most - cardinality(made.picks),
                free - (select count(*) from unnest(made.picks) p where p.limit_key is not null or p.breaker is not null)::integer, gates);
            gates := passing.gates;
            tried := passing.tried;
            made.picks := made.picks || wakeful.lock_picks(passing.passed, cardinality(passing.passed));
            made.held_back := made.held_back or passing.cut;
            if passing.parked <> '{}' and not alone then
                kept := wakeful.keep_keyed(pairs, array(select c.task from unnest(passing.parked) c));
                missed := missed or exists (select from unnest(passing.parked) c where c.task <> all (kept));
                passing.parked := array(select c from unnest(passing.parked) c where c.task = any (kept));
                perform wakeful.park(passing.parked, at);
                -- Always a row, also where all of them are known: none would leave the keys null, and their marks forgotten.
                select made.keys || coalesce(array_agg(k.key), '{}'), made.key_tasks || coalesce(array_agg(k.task), '{}')
                into made.keys, made.key_tasks
                from (select distinct c.key, c.task from unnest(passing.parked) c where c.key <> all (made.keys)) k;
            end if;
        else
            made.picks := made.picks || wakeful.lock_picks(fresh, most - cardinality(made.picks));
            tried := cardinality(fresh);
        end if;
        made.held_back := made.held_back or cardinality(made.picks) >= most and most < want;
        exit when cardinality(made.picks) >= most or made.held_back
            or looked < look + cardinality(seen) and tried = cardinality(fresh);
        -- Only who was tried: where others were quicker, the next in line is next.
        seen := seen || array(select c.id from unnest(fresh[1:tried]) c);
        made.busy := round = 8;
    end loop;
    made.busy := made.busy or missed or exists (select from unnest(gates) g where g.busy);
    return made;
end
$$;

-- ==== 41_start.sql
-- Starting what was picked, and what there is to know afterwards.
-- Promise: of plain and of picked jobs the first in line are started. From its start on a job counts against its limits and has paid for its
--   rates, in the transaction that holds their gates.
-- Locks: none beyond those of picking.

-- Of the jobs chosen from plain tasks (where their rows are) and those picked, the first `want` in line.
create function wakeful.first_in_line(want integer, inout tids tid[], inout picks wakeful.pick[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    plain constant tid[] := tids;
    picked constant wakeful.pick[] := picks;
    taken uuid[];
begin
    if cardinality(plain) + cardinality(picked) <= want then
        return;
    end if;
    taken := array(
        select m.id from (
            select j.id, j.rank, coalesce(j.turn, j.ready_at) as place, 0 as ordinal from wakeful.job j where j.ctid = any (plain)
            union all
            select p.id, p.rank, p.place, p.ordinal from unnest(picked) p
        ) m
        order by m.rank, m.place, m.ordinal, m.id limit want);
    tids := array(select j.ctid from wakeful.job j where j.ctid = any (plain) and j.id = any (taken));
    picks := array(select p from unnest(picked) p where p.id = any (taken));
end
$$;

-- Pays for starts: the rates of the gates that they pass.
create function wakeful.pay(picks wakeful.pick[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    insert into wakeful.gate as g (key, task, arrives_at)
    select s.key, s.task, pay.at + s.starts * s.every
    from (
        select p.limit_key as key, p.task, l.every, count(*) as starts
        from unnest(picks) p join wakeful.task_policy l on l.task = p.task
        where l.every is not null and (p.key is not null or p.limit_key = wakeful.task_gate(p.task))
        group by p.limit_key, p.task, l.every
        union all
        select wakeful.queue_gate(p.queue), null, l.every, count(*)
        from unnest(picks) p join wakeful.queue_policy l on l.queue = p.queue
        where l.every is not null and p.queue_slot
        group by p.queue, l.every
    ) s
    on conflict on constraint gate_pkey do update
    set arrives_at = greatest(g.arrives_at, pay.at) + (excluded.arrives_at - pay.at);
end
$$;

-- Starts picked jobs: they count against their limits from here on, pay for their rates, and are noted as probes.
create function wakeful.start_picked(worker_id uuid, picks wakeful.pick[], lease interval, at timestamptz)
    returns setof wakeful.claimed_job
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    ids constant uuid[] := array(select p.id from unnest(picks) p);
begin
    return query
    update wakeful.job j
    set state = 2, attempt = j.attempt + 1, epoch = j.epoch + 1, worker_id = start_picked.worker_id, started_at = start_picked.at,
        lease_expires_at = start_picked.at + start_picked.lease, limit_key = p.limit_key, queue_slot = p.queue_slot,
        updated_at = start_picked.at
    from unnest(picks) p
    where j.id = any (ids) and j.id = p.id
    returning j.id, j.task::text, j.queue::text, j.payload::jsonb, j.attempt, j.max_attempts, j.epoch, p.rank,
        p.place, j.run_at, j.created_at, j.started_at, j.lease_expires_at, j.expires_at, j.correlation_id,
        j.parent_id, j.origin_id, j.tenant::text, j.created_by::text, j.metadata::jsonb, j.attempts, j.saved,
        null::double precision, null::boolean, null::uuid[], null::uuid[], null::jsonb, null::boolean;
    if exists (select from unnest(picks) p where p.limit_key is not null or p.breaker is not null) then
        perform wakeful.pay(picks, start_picked.at);
        perform wakeful.try_breakers(array(select distinct p.breaker from unnest(picks) p where p.breaker is not null), start_picked.at);
        insert into wakeful.probe as b (breaker, holder, epoch)
        select p.breaker, j.id, j.epoch
        from unnest(picks) p join wakeful.job j on j.id = p.id
        where j.id = any (ids) and p.breaker in (select b.name from wakeful.breaker b where b.state = 'half_open')
        on conflict on constraint probe_pkey do update set epoch = excluded.epoch, until = null;
    end if;
    perform wakeful.advance_turns(picks);
end
$$;

-- What a worker has to know whose lane took `taken` of `want` from these pairs, in a claim that began at `since`: when to look again.
-- Who got nothing, and does not mind the clock, leaves that to others. Who is full pokes those who are not.
create function wakeful.after_picking(
    report wakeful.claimed_job, pairs wakeful.steered_pair[], taken integer, want integer, pass_on boolean, worker_id uuid, tasks text[],
    since timestamptz) returns wakeful.claimed_job
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    more wakeful.steered_pair;
    patience integer;
begin
    if taken < want and report.held_back is not true then
        patience := case when taken > 0 then 0 else wakeful.minds_the_clock(
            after_picking.worker_id, array(select p.queue from unnest(pairs) p), tasks) end;
        if patience is not null then
            report.due_in := least(report.due_in, least(wakeful.next_gate(tasks, since),
                wakeful.next_room(pairs) + extract(epoch from at - since), wakeful.next_token(pairs, since)) + patience);
        end if;
    elsif want <= 0 or pass_on then
        foreach more in array wakeful.waiting_at_open_gates(pairs, at) loop
            perform wakeful.poke(more.queue, more.task, at, null, null, null);
        end loop;
    end if;
    return report;
end
$$;

-- The seconds until a rate on a whole task or queue allows a start that something waits for; null for none.
create function wakeful.next_token(pairs wakeful.steered_pair[], at timestamptz) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return (
        select min(wakeful.token_in(g.arrives_at, l.every, l.burst, next_token.at))
        from unnest(pairs) p
        cross join lateral (
            select p.task_gate as name, t.every, t.burst from wakeful.task_policy t where t.task = p.task and p.task_gate is not null
            union all
            select p.queue_gate, r.every, r.burst from wakeful.queue_policy r where r.queue = p.queue and p.queue_gate is not null
        ) l
        join wakeful.gate g on g.key = l.name
        where l.every is not null and wakeful.tokens(g.arrives_at, l.every, l.burst, next_token.at) <= 0
          and exists (
            select from wakeful.job j where j.queue = p.queue and j.task = p.task and j.state = 1 and j.limit_key is null and not j.suspect));
end
$$;

-- Half a second when jobs wait behind a breaker that lets a few through: one of those may end in a way that tells nobody. Null for
-- none.
create function wakeful.next_room(pairs wakeful.steered_pair[]) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return (
        select 0.5 from unnest(pairs) p
        join wakeful.breaker b on b.name = p.breaker and b.attentive and b.state <> 'open'
        cross join lateral (
            select j.id from wakeful.job j
            where j.queue = p.queue and j.task = p.task and j.state = 1 and j.limit_key is null and not j.suspect
            order by j.rank, coalesce(j.turn, j.ready_at), j.id limit 1) w
        limit 1);
end
$$;

-- A pair in which jobs wait that nothing holds up, as far as can be seen without taking its gates.
create function wakeful.waiting_at_open_gates(pairs wakeful.steered_pair[], at timestamptz) returns wakeful.steered_pair[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return array(
        select p from unnest(pairs) p
        where not exists (
            select from wakeful.breaker b where b.name = p.breaker and (b.state = 'half_open' or b.probe_at > waiting_at_open_gates.at))
          and not exists (
            select from unnest(wakeful.gate_states(array_remove(array[p.task_gate], null), array[p.task], null, waiting_at_open_gates.at)
                || wakeful.gate_states(array_remove(array[p.queue_gate], null), null, array[p.queue], waiting_at_open_gates.at)) g
            where g.room <= 0)
          and (exists (
                select from wakeful.job j
                where j.queue = p.queue and j.task = p.task and j.state = 1 and j.limit_key is null and not j.suspect)
            or exists (select from wakeful.freed_slot f where f.task = p.task)
            or exists (select from wakeful.gate g where g.task = p.task and g.wake_at <= waiting_at_open_gates.at))
        limit 1);
end
$$;

-- ==== 41_turn.sql
-- Fair turns: in a fair queue the tenants take turns, each by its weight, however many jobs one of them has.
-- Promise: one stored place in line (`turn`) for each job, given when it becomes ready: behind the last one of its tenant that waits, and not
--   before the point that the queue has come to. Nobody is locked for it: two producers who enqueue for one tenant at the same
--   moment may give a turn twice. Turns are times on a clock of the queue's own, which a claim moves on; they say nothing of
--   real time.
-- Locks: none in a producer's transaction; a claim moves the queue's clock unless someone else is doing so.

-- The turns of jobs that become ready in this order; null where their queue is not fair.
create function wakeful.turns(queues text[], tenants text[], ranks smallint[]) returns timestamptz[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    if not exists (select from wakeful.queue_policy r where r.fair and r.queue = any (queues)) then
        return null;
    end if;
    return array(
        with asked as materialized (
            select a.queue, coalesce(a.tenant, '') as tenant, a.rank, a.place,
                row_number() over (partition by a.queue, a.tenant, a.rank order by a.place) as nth
            from unnest(queues, tenants, ranks) with ordinality a(queue, tenant, rank, place)
        ), line as materialized (
            select l.queue, l.tenant, l.rank, s.step,
                greatest(coalesce(c.turn, '2000-01-01 00:00:00+00'), coalesce(last.turn + s.step, '2000-01-01 00:00:00+00')) as start
            from (select distinct a.queue, a.tenant, a.rank from asked a) l
            join wakeful.queue_policy r on r.queue = l.queue and r.fair
            cross join lateral (
                select interval '1 millisecond' / coalesce((r.weights ->> l.tenant)::double precision, 1) as step) s
            left join wakeful.fair_clock c on c.queue = l.queue and c.rank = l.rank
            left join lateral (
                select j.turn from wakeful.job j
                where j.queue = l.queue and coalesce(j.tenant::text, '') = l.tenant and j.rank = l.rank and j.state = 1
                  and j.turn is not null
                order by j.turn desc limit 1) last on true
        )
        select l.start + (a.nth - 1) * l.step
        from asked a left join line l on l.queue = a.queue and l.tenant = a.tenant and l.rank = a.rank
        order by a.place);
end
$$;

-- The turns of asked jobs; null when none of their queues is fair.
create function wakeful.turns_of(jobs wakeful.asked_job[]) returns timestamptz[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from wakeful.queue_policy r where r.fair) then
        return null;
    end if;
    return wakeful.turns(
        array(select coalesce(j.queue, 'default') from unnest(jobs) j), array(select j.tenant from unnest(jobs) j),
        array(select wakeful.rank_of(j.priority) from unnest(jobs) j));
end
$$;

-- Gives ready jobs their turns: such as were scheduled, or waited in line before their queue became fair. The rows are the caller's.
create function wakeful.give_turns(ids uuid[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    jobs wakeful.job[];
    given timestamptz[];
begin
    if not exists (select from wakeful.queue_policy r where r.fair) then
        return;
    end if;
    jobs := array(select j from wakeful.job j where j.id = any (ids) order by j.ready_at, j.id);
    given := wakeful.turns(array(select j.queue::text from unnest(jobs) j), array(select j.tenant::text from unnest(jobs) j),
        array(select j.rank from unnest(jobs) j));
    update wakeful.job j set turn = g.turn
    from (
        select r.id, t.turn
        from (select j.id, row_number() over () as place from unnest(jobs) j) r
        join unnest(given) with ordinality t(turn, place) on t.place = r.place
    ) g
    where j.id = any (ids) and j.id = g.id and j.turn is distinct from g.turn;
end
$$;

-- Gives turns to jobs in line of fair queues that have none: they ran, or were being enqueued, when their queue became fair. By their real
-- time they stand behind all others, where a look finds them, and would wait for as long as others come.
create function wakeful.give_missing_turns(queues text[], tasks text[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    ids uuid[];
begin
    if not exists (select from wakeful.queue_policy r where r.fair) then
        return;
    end if;
    ids := array(
        select h.id
        from unnest(queues) q(queue)
        join wakeful.queue_policy r on r.queue = q.queue and r.fair
        cross join unnest(tasks) t(task)
        cross join lateral unnest(wakeful.ranks_in(q.queue, t.task)) k(rank)
        cross join lateral (
            select j.id from wakeful.job j
            where j.queue = q.queue and j.task = t.task and j.state = 1 and j.limit_key is null and j.rank = k.rank
              -- Turns are counted from the year 2000 on, a thousand a second.
              and coalesce(j.turn, j.ready_at) > '2010-01-01 00:00:00+00' and j.turn is null
            order by coalesce(j.turn, j.ready_at), j.id limit 1000 for update skip locked
        ) h);
    if ids <> '{}' then
        perform wakeful.give_turns(ids);
    end if;
end
$$;

-- Moves the clocks of fair queues on to the turns that have been taken.
create function wakeful.advance_turns(picks wakeful.pick[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    reached record;
begin
    for reached in
        select p.queue, p.line_rank as rank, max(p.turn) as turn from unnest(picks) p where p.turn is not null
        group by p.queue, p.line_rank order by 1, 2
    loop
        perform from wakeful.fair_clock c where c.queue = reached.queue and c.rank = reached.rank for update skip locked;
        if found then
            update wakeful.fair_clock c set turn = reached.turn
            where c.queue = reached.queue and c.rank = reached.rank and c.turn < reached.turn;
        -- Two who begin several clocks, each in an order of its own, would wait for each other.
        elsif not exists (select from wakeful.fair_clock c where c.queue = reached.queue and c.rank = reached.rank)
            and pg_try_advisory_xact_lock(hashtextextended('wakeful.clocks', 0))
        then
            insert into wakeful.fair_clock (queue, rank, turn) values (reached.queue, reached.rank, reached.turn)
            on conflict on constraint fair_clock_pkey do nothing;
        end if;
    end loop;
end
$$;

-- ==== 42_tend.sql
-- Tend: what time brings about. Due jobs become ready, late ones are cancelled, jobs of the dead are taken back.
-- Promise: idempotent; whoever comes first does it, and rows that someone holds are left for the next call.
-- Locks: rows it changes, skipping locked ones; a lapsed worker's own row, so that its claims and its rescue exclude
--   each other.

-- Makes up to `most` due jobs of these queues and tasks ready, behind what is in line already; returns how many.
create function wakeful.promote(queues text[], tasks text[], most integer default 1000) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    ids uuid[];
begin
    select array(
        select d.id
        from unnest(queues) q(queue)
        cross join unnest(tasks) t(task)
        cross join lateral (
            select j.id from wakeful.job j
            where j.queue = q.queue and j.task = t.task and j.state = 0 and j.run_at <= at
            order by j.run_at, j.id
            limit most
            for update skip locked
        ) d
        limit most)
    into ids;
    if ids = '{}' then
        return 0;
    end if;
    update wakeful.job j set state = 1, ready_at = at, updated_at = at where j.id = any (ids);
    perform wakeful.give_turns(ids);
    return cardinality(ids);
end
$$;

-- Cancels those of the given rows that were not started by their expires_at.
create function wakeful.expire_rows(ids uuid[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return wakeful.retire_cancelled(array(
        select row(l.id, 'expired', null, 'expired', null, null, true)::wakeful.ended_attempt
        from (
            select j.id from wakeful.job j
            where j.id = any (ids) and j.state + 0 < 2 and j.expires_at <= expire_rows.at
            order by j.id for update skip locked
        ) l), at);
end
$$;

-- Cancels up to `most` waiting jobs whose expires_at has passed; returns how many.
create function wakeful.expire(most integer default 1000) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    at constant timestamptz := wakeful.now();
    ids constant uuid[] := array(
        select j.id from wakeful.job j
        where j.expires_at is not null and j.expires_at <= at and j.state + 0 < 2
        order by j.expires_at limit most);
begin
    return case when ids = '{}' then 0 else wakeful.expire_rows(ids, at) end;
end
$$;

-- Takes back up to `most` jobs whose lease, or whose worker's lease, has lapsed: each becomes ready again, or dead if
-- that was its last start, or cancelled if that was asked for. Returns how many. `spare` is a worker in the middle of a
-- claim: its lease held when the claim began, and its row must outlive what it is about to take.
create function wakeful.rescue(most integer default 1000, spare uuid default null) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    lapsed wakeful.worker;
    ids uuid[];
    held integer;
    rescued integer := 0;
begin
    ids := array(
        select j.id from wakeful.job j
        where j.state = 2 and j.lease_expires_at is not null and j.lease_expires_at <= at
        order by j.lease_expires_at, j.id limit most for update skip locked);
    if ids <> '{}' then
        update wakeful.worker w set taken_back_at = at
        where w.id in (
            select w.id from wakeful.worker w
            where w.id in (select j.worker_id from wakeful.job j where j.id = any (ids)) order by w.id for no key update skip locked);
        -- Who did not take up what it was handed is handed no more, until it says that it takes jobs.
        update wakeful.sleeper s set takes = null
        where s.worker_id in (
            select s.worker_id from wakeful.sleeper s
            where s.takes is not null and s.worker_id in (select j.worker_id from wakeful.job j where j.id = any (ids))
            order by s.worker_id for update skip locked);
    end if;
    rescued := wakeful.end_lapsed(ids, at);
    for lapsed in
        select w.* from wakeful.worker w
        where w.lease_expires_at <= at and w.id is distinct from rescue.spare order by w.id for update skip locked
    loop
        exit when rescued >= most;
        -- Its jobs with a lease of their own live by that one.
        ids := array(
            select j.id from wakeful.job j
            where j.state = 2 and j.worker_id = lapsed.id and j.lease_expires_at is null
            limit most - rescued for update skip locked);
        -- Held ones count too, and such as were taken back since it was last heard of: alone means that nothing else ran there.
        held := (select count(*) from wakeful.job j where j.state = 2 and j.worker_id = lapsed.id);
        if held > cardinality(ids) then
            update wakeful.worker w set taken_back_at = at where w.id = lapsed.id;
        end if;
        rescued := rescued + wakeful.end_crashed(ids, held = 1 and coalesce(lapsed.taken_back_at <= lapsed.beat_at, true),
            pg_postmaster_start_time() > lapsed.beat_at, at);
        delete from wakeful.sleeper s where s.worker_id = lapsed.id;
        delete from wakeful.worker w where w.id = lapsed.id and not exists (
            select from wakeful.job j where j.state = 2 and j.worker_id = lapsed.id and j.lease_expires_at is null);
    end loop;
    return rescued;
end
$$;

-- The seconds from `since` on until the next job of these queues and tasks is due or loses its lease, or a worker loses its own; null
-- when there is none. Always later than `since`, when the caller began to look for what is due: that may have come already.
create function wakeful.next_due(queues text[], tasks text[], since timestamptz) returns double precision
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_sort = off
as $$
#variable_conflict use_column
declare
    scheduled timestamptz;
    leased timestamptz;
    worker_leased timestamptz;
begin
    select min(d.run_at) into scheduled
    from unnest(queues) q(queue)
    cross join unnest(tasks) t(task)
    cross join lateral (
        select j.run_at from wakeful.job j
        where j.queue = q.queue and j.task = t.task and j.state = 0 and j.run_at > since
        order by j.run_at, j.id limit 1
    ) d;
    select j.lease_expires_at into leased from wakeful.job j
    where j.state = 2 and j.lease_expires_at is not null and j.lease_expires_at > since
    order by j.lease_expires_at limit 1;
    -- Who holds nothing has nothing to be rescued: as long as it renews in time nobody need wake for it between two pulses.
    select min(w.lease_expires_at + case when exists (
            select from wakeful.job j where j.state = 2 and j.worker_id = w.id) then interval '0' else interval '20 seconds' end)
    into worker_leased from wakeful.worker w where w.lease_expires_at > since;
    return extract(epoch from least(scheduled, leased, worker_leased) - since);
end
$$;

-- How many seconds after its moment this worker sees to what falls due in its queues and tasks; null if it leaves that to others, so
-- that one due job does not wake a fleet. Of those alive who serve as much, the two with the least ids see to it at once; should both
-- have died a moment ago, the next two do so a second later, and two more behind them. Who is not on the list does so at once.
create function wakeful.minds_the_clock(worker_id uuid, queues text[], tasks text[]) returns integer
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select case when count(*) < 6 then count(*) / 2 end from wakeful.worker w
        where w.id < minds_the_clock.worker_id and w.lease_expires_at > wakeful.now()
          and (w.queues is null or w.queues @> minds_the_clock.queues) and w.tasks @> minds_the_clock.tasks);
end
$$;

-- Folds the deltas into the tally. One folder at a time; the others have nothing to do.
create function wakeful.fold_tally() returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    folded integer;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('wakeful.tally', 0)) then
        return 0;
    end if;
    with delta as (
        delete from wakeful.tally_delta d returning d.day, d.task, d.state, d.jobs
    ), summed as (
        select d.day, d.task, d.state, sum(d.jobs) as jobs from delta d group by d.day, d.task, d.state order by 1, 2, 3
    )
    insert into wakeful.tally as t (day, task, state, jobs)
    select s.day, s.task, s.state, s.jobs from summed s
    on conflict (day, task, state) do update set jobs = t.jobs + excluded.jobs;
    get diagnostics folded = row_count;
    delete from wakeful.tally t where t.jobs = 0;
    return folded;
end
$$;

-- ==== 43_breaker.sql
-- Circuit breakers: what happens to a service is known to the whole fleet.
-- Promise: `threshold` failures within `span` open a breaker; while it is open nothing behind it is started, and nothing is charged.
--   After open_for it is half-open: exactly `probes` are let through at a time, over the whole fleet. As many successes close it, a
--   failure opens it for twice as long, open_cap at most. From a failure to the next success, and from the first start of all to the
--   first success, no more jobs run than failures are left before it opens. A success while it is closed and trusted writes nothing.
-- Locks: the breaker's row, after the jobs that are settled, in the order of names; a claim skips one that someone holds.

-- The breaker's row, locked; made with the defaults if there is none.
create function wakeful.hold_breaker(name text) returns wakeful.breaker
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    held wakeful.breaker;
begin
    loop
        select b.* into held from wakeful.breaker b where b.name = hold_breaker.name for update;
        if found then
            return held;
        end if;
        perform wakeful.check_name('breaker', hold_breaker.name);
        insert into wakeful.breaker (name, updated_at) values (hold_breaker.name, wakeful.now())
        on conflict on constraint breaker_pkey do nothing;
    end loop;
end
$$;

-- Opens a breaker that the caller holds, for `length`.
create function wakeful.open_breaker(name text, length interval, at timestamptz) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    delete from wakeful.probe p where p.breaker = open_breaker.name;
    update wakeful.breaker b
    set state = 'open', open_length = open_breaker.length, opened_at = open_breaker.at, half_opened_at = null,
        probe_at = open_breaker.at + open_breaker.length, success_count = 0, cautious = false, updated_at = open_breaker.at
    where b.name = open_breaker.name;
    -- Whoever minds the clock learns when to come for the probe.
    select pg_catalog.pg_notify('wakeful', '{"look": true}');
end;

-- Closes a breaker that the caller holds, and has everyone look again.
create function wakeful.close_breaker(name text, at timestamptz) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    delete from wakeful.probe p where p.breaker = close_breaker.name;
    update wakeful.breaker b
    set state = 'closed', failures = '{}', cautious = false, open_length = null, probe_at = null, closed_at = close_breaker.at,
        tried_at = coalesce(b.tried_at, close_breaker.at), updated_at = close_breaker.at
    where b.name = close_breaker.name;
    select pg_catalog.pg_notify('wakeful', '{"look": true}');
end;

-- Tells the session whose work moved a breaker, once, as a NOTICE with the facts in DETAIL; our clients make a log line of it.
create function wakeful.tell_of_breaker(code text, message text, facts jsonb) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    -- Whatever the session asks for: nobody else is told.
    set client_min_messages = notice
as $$
begin
    raise notice using errcode = tell_of_breaker.code, message = tell_of_breaker.message, detail = tell_of_breaker.facts::text;
end
$$;

-- Tells one worker of what a person did to a breaker, so that the fleet's log has a line of it, and only one.
create function wakeful.tell_a_worker(facts jsonb) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    select pg_notify(wakeful.channel_of(w.id), jsonb_build_object('breaker', tell_a_worker.facts)::text)
    from (select w.id from wakeful.worker w where w.lease_expires_at > wakeful.now() order by w.beat_at desc, w.id limit 1) w;
end;

-- Notes failures: when each of the attempts had started, and whether one of them was a probe. What started before the breaker
-- was closed last tells nothing of the service as it is since.
create function wakeful.note_failures(name text, starts timestamptz[], probed boolean, at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    held constant wakeful.breaker := wakeful.hold_breaker(name);
    recent timestamptz[];
begin
    if held.state = 'half_open' and probed then
        update wakeful.breaker b set last_failure_at = at where b.name = held.name;
        perform wakeful.open_breaker(held.name, least(held.open_length * 2, held.open_cap), at);
        perform wakeful.tell_of_breaker('WF101', format('breaker %s is open again: its probe failed', held.name),
            jsonb_build_object('breaker', held.name, 'from', held.state,
                'open_seconds', extract(epoch from least(held.open_length * 2, held.open_cap))));
    elsif held.state = 'closed' then
        recent := array(
            select f.at from (
                select f.at from unnest(held.failures) f(at) where f.at > note_failures.at - held.span
                union all
                select note_failures.at from unnest(starts) s(at) where s.at >= coalesce(held.closed_at, '-infinity')
            ) f order by f.at desc limit held.threshold);
        if recent = '{}' then
            return;
        end if;
        update wakeful.breaker b
        set failures = recent, cautious = true, success_count = 0, last_failure_at = at, updated_at = at where b.name = held.name;
        if cardinality(recent) >= held.threshold then
            perform wakeful.open_breaker(held.name, held.open_for, at);
            perform wakeful.tell_of_breaker('WF101', format('breaker %s is open: %s failures within %s', held.name,
                cardinality(recent), held.span), jsonb_build_object('breaker', held.name, 'from', held.state,
                'open_seconds', extract(epoch from held.open_for), 'failures', cardinality(recent)));
        end if;
    else
        update wakeful.breaker b set last_failure_at = at where b.name = held.name;
    end if;
end
$$;

-- Notes successes: when the newest of the attempts had started, and how many were probes.
create function wakeful.note_successes(name text, newest timestamptz, probed integer, at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    held constant wakeful.breaker := wakeful.hold_breaker(name);
begin
    if held.state = 'half_open' and probed > 0 then
        update wakeful.breaker b set success_count = held.success_count + probed, updated_at = at where b.name = held.name;
        if held.success_count + probed >= held.probes then
            perform wakeful.close_breaker(held.name, at);
            perform wakeful.tell_of_breaker('WF102', format('breaker %s is closed', held.name), jsonb_build_object(
                'breaker', held.name, 'from', held.state, 'was_open_seconds', extract(epoch from at - held.opened_at)));
        end if;
    elsif held.state = 'closed' and held.cautious and newest >= coalesce(held.last_failure_at, '-infinity') then
        -- The first of all changes nothing that is shown.
        update wakeful.breaker b
        set cautious = false, success_count = case when held.last_failure_at is null then b.success_count else 1 end,
            updated_at = case when held.last_failure_at is null then b.updated_at else at end
        where b.name = held.name;
        perform pg_notify('wakeful', '{"look": true}');
    end if;
end
$$;

-- Tells the breakers that are attentive of completed jobs, in the transaction that completed them.
create function wakeful.breakers_hear_of(done uuid[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    told record;
begin
    for told in
        select p.breaker, max(f.started_at) as newest,
            count(*) filter (where exists (
                select from wakeful.probe b where b.breaker = p.breaker and b.holder = f.id and b.epoch = f.epoch)) as probed
        from wakeful.finished_job f
        join wakeful.task_policy p on p.task = f.task
        -- Of several breakers one may be attentive, and the row of another one is not to be waited for.
        join wakeful.breaker b on b.name = p.breaker and b.attentive
        where f.id = any (done) and f.finished_at = breakers_hear_of.at and p.breaker is not null
        group by p.breaker order by p.breaker
    loop
        perform wakeful.note_successes(told.breaker, told.newest, told.probed::integer, at);
    end loop;
end
$$;

-- Tells the breakers of running jobs that have failed, whose rows the caller has locked.
create function wakeful.breakers_hear_of_failed(failed uuid[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    told record;
begin
    for told in
        select p.breaker, array_agg(j.started_at) as starts,
            bool_or(exists (
                select from wakeful.probe b where b.breaker = p.breaker and b.holder = j.id and b.epoch = j.epoch)) as probed
        from wakeful.job j
        join wakeful.task_policy p on p.task = j.task
        where j.id = any (failed) and p.breaker is not null
        group by p.breaker order by p.breaker
    loop
        perform wakeful.note_failures(told.breaker, told.starts, told.probed, at);
    end loop;
end
$$;

-- How many have been let through a half-open breaker and are not back. Asked for in a later statement than the lock.
create function wakeful.probes_under_way(breaker text, at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    return (
        select count(*) from wakeful.probe p
        left join lateral (
            select j.id from wakeful.job j where j.id = p.holder and j.epoch = p.epoch and j.state + 0 = 2 limit 1) j on true
        where p.breaker = probes_under_way.breaker and (p.until > at or j.id is not null));
end
$$;

-- How many more jobs of its tasks may start now: null for any number. The breaker is locked by the caller; one whose time has
-- come becomes half-open.
create function wakeful.room_behind(held wakeful.breaker, at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    if held.state = 'open' then
        if held.probe_at > at then
            return 0;
        end if;
        update wakeful.breaker b set state = 'half_open', half_opened_at = at, probe_at = null, success_count = 0, updated_at = at
        where b.name = held.name;
        return held.probes;
    elsif held.state = 'half_open' then
        return greatest(0, held.probes - held.success_count - wakeful.probes_under_way(held.name, at));
    elsif held.tried_at is null or held.cautious and greatest(held.last_failure_at, held.tried_at) > at - held.span then
        return greatest(0, held.threshold - (select count(*) from unnest(held.failures) f(at) where f.at > room_behind.at - held.span)
            - (select count(*) from wakeful.job j join wakeful.task_policy p on p.task = j.task
                where j.state = 2 and p.breaker = held.name));
    end if;
    return null;
end
$$;

-- Jobs behind these breakers start, which the caller has locked unless they have been tried before.
create function wakeful.try_breakers(names text[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    update wakeful.breaker b set tried_at = try_breakers.at, cautious = true
    where b.name = any (names) and b.tried_at is null and b.state = 'closed';
end
$$;

-- For a call inside a handler, or outside of any job: whether it may be made. `holder` and `epoch` are the running job's (epoch null:
-- a caller of its own, who will be back within `patience`). wait: how many seconds until it is worth asking again; null when the
-- call may be made. listens: whether a success has to be told. `policy` is how a breaker judges that nobody has declared so far (arguments
-- of set_breaker); what is there already stays as it is.
create function wakeful.enter_breaker_1(
    name text, holder uuid, epoch bigint default null, patience interval default '1 minute', policy jsonb default null)
    returns table (wait double precision, listens boolean, probing boolean)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    at constant timestamptz := wakeful.now();
    held wakeful.breaker;
begin
    probing := false;
    select b.* into held from wakeful.breaker b where b.name = enter_breaker_1.name;
    if not found and policy is not null then
        perform wakeful.set_breaker(name, (policy ->> 'threshold')::integer, (policy ->> 'span')::interval,
            (policy ->> 'open_for')::interval, (policy ->> 'open_cap')::interval, (policy ->> 'probes')::integer);
    end if;
    listens := coalesce(held.attentive, false);
    if not listens or held.state = 'closed' then
        return next;
        return;
    elsif held.state = 'open' and held.probe_at > at then
        wait := extract(epoch from held.probe_at - at);
        return next;
        return;
    end if;
    held := wakeful.hold_breaker(name);
    if held.state <> 'closed' and wakeful.room_behind(held, at) > 0 then
        insert into wakeful.probe as p (breaker, holder, epoch, until)
        values (name, holder, epoch, case when epoch is null then at + patience end)
        on conflict on constraint probe_pkey do update set epoch = excluded.epoch, until = excluded.until;
        probing := true;
    elsif held.state <> 'closed' then
        -- The one that was let through decides: most are back within a second.
        wait := greatest(1, extract(epoch from held.probe_at - at));
    end if;
    return next;
end
$$;

-- Tells a breaker how such a call went. A success needs to be told only by one who was asked to.
create function wakeful.leave_breaker_1(
    name text, holder uuid, succeeded boolean, started_ago interval, probing boolean default false) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    at constant timestamptz := wakeful.now();
    probed boolean := false;
begin
    if probing or succeeded is null then
        -- It is back, and the next may try. One that was let through before the breaker opened again is no probe any more.
        perform wakeful.hold_breaker(name);
        delete from wakeful.probe p where p.breaker = leave_breaker_1.name and p.holder = leave_breaker_1.holder;
        probed := found and probing;
    end if;
    if succeeded then
        perform wakeful.note_successes(name, at - started_ago, probed::integer, at);
    elsif not succeeded then
        perform wakeful.note_failures(name, array[at - started_ago], probed, at);
    end if;
end
$$;

-- Opens a breaker by hand, for its open_for or for `length`; probes follow as always.
create function wakeful.trip_breaker(name text, length interval default null, actor text default null, reason text default null)
    returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    held wakeful.breaker;
begin
    if trip_breaker.length <= interval '0' or trip_breaker.length > wakeful.longest() then
        perform wakeful.refuse('WF003', format('length %s is not positive, or longer than %s', trip_breaker.length, wakeful.longest()),
            'Give one such as 10 minutes.');
    end if;
    held := wakeful.hold_breaker(trip_breaker.name);
    perform wakeful.open_breaker(held.name, coalesce(trip_breaker.length, held.open_for), wakeful.now());
    if held.state <> 'open' then
        perform wakeful.tell_a_worker(jsonb_build_object('breaker', held.name, 'to', 'open', 'from', held.state,
            'open_seconds', extract(epoch from coalesce(trip_breaker.length, held.open_for)),
            'by', coalesce(trip_breaker.actor, session_user::text)));
    end if;
    perform wakeful.note_act('trip', null, trip_breaker.actor,
        jsonb_build_object('breaker', held.name, 'from', held.state, 'reason', trip_breaker.reason));
end
$$;

-- Closes a breaker by hand; who waits behind it starts at once.
create function wakeful.reset_breaker(name text, actor text default null, reason text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    held wakeful.breaker;
begin
    select b.* into held from wakeful.breaker b where b.name = reset_breaker.name for update;
    if not found then
        perform wakeful.refuse('WF004', format('no breaker is called %s', reset_breaker.name),
            'List them with: wakeful breakers list.', jsonb_build_object('breaker', reset_breaker.name));
    end if;
    perform wakeful.close_breaker(held.name, wakeful.now());
    if held.state <> 'closed' then
        perform wakeful.tell_a_worker(jsonb_build_object('breaker', held.name, 'to', 'closed', 'from', held.state,
            'was_open_seconds', extract(epoch from wakeful.now() - held.opened_at),
            'by', coalesce(reset_breaker.actor, session_user::text)));
    end if;
    perform wakeful.note_act('reset', null, reset_breaker.actor,
        jsonb_build_object('breaker', held.name, 'from', held.state, 'reason', reset_breaker.reason));
end
$$;

-- ==== 44_claim.sql
-- Claim: what a worker asks for when it has free slots.
-- Promise: takes from the named queues and registered tasks only; nothing that is paused, or behind an open breaker or a full limit, is
--   taken or burns an attempt.
--   A worker without a lease on each job must be registered, with its own lease running, or the claim is refused.
-- A job is held by one worker at a time; its start is counted here, and its epoch raised.
-- Locks: jobs to be completed, in id order; a key share on the worker's own row; jobs to be taken, skipping locked ones.

-- The tasks, less those that are paused.
create function wakeful.open_names(kind text, names text[]) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from wakeful.control c where c.kind = open_names.kind and c.paused) then
        return names;
    end if;
    return array(
        select n.name from unnest(names) n(name)
        where not exists (
            select from wakeful.control c where c.kind = open_names.kind and c.name = n.name and c.paused));
end
$$;

-- Refuses a worker whose lease has lapsed. `hold`: keeps its row against its rescue for the rest of the transaction, which
-- writes; who takes nothing need not.
create function wakeful.hold_worker(worker_id uuid, hold boolean default true) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    lapses_at timestamptz;
begin
    if hold then
        -- The clock is read behind the lock: the lease may have lapsed while this waited.
        select w.lease_expires_at into lapses_at from wakeful.worker w where w.id = hold_worker.worker_id for key share;
    else
        select w.lease_expires_at into lapses_at from wakeful.worker w where w.id = hold_worker.worker_id;
    end if;
    if lapses_at is null or lapses_at <= wakeful.now() then
        perform wakeful.refuse('WF006', format('the lease of worker %s has lapsed', hold_worker.worker_id),
            'Register again under a new worker id; its jobs are being rescued.');
    end if;
end
$$;

-- Declares which queues and tasks the worker wants to be poked for (no queue: none, it is busy), until when if it is not
-- registered, and on which channel jobs may be handed to it. Writes only on a change; true when it asks for more pokes than before.
create function wakeful.declare_sleep(
    worker_id uuid, queues text[], tasks text[], until timestamptz default null, takes text default null) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if declare_sleep.queues = '{}' then
        delete from wakeful.sleeper s where s.worker_id = declare_sleep.worker_id;
        return false;
    end if;
    update wakeful.sleeper s set takes = declare_sleep.takes where s.worker_id = declare_sleep.worker_id and s.takes is distinct from declare_sleep.takes;
    insert into wakeful.sleeper as s (worker_id, queues, tasks, until, takes)
    values (declare_sleep.worker_id, declare_sleep.queues, declare_sleep.tasks, declare_sleep.until, declare_sleep.takes)
    on conflict on constraint sleeper_pkey do update
    set queues = excluded.queues, tasks = excluded.tasks, until = excluded.until
        where (s.queues, s.tasks, s.until) is distinct from (excluded.queues, excluded.tasks, excluded.until);
    return found;
end
$$;

-- Rescues, expires and promotes; returns how many jobs of these queues and tasks became ready by their time. A registered worker holds
-- its own row before those of the lapsed, which are skipped where somebody holds them: two that find each other lapsed (the clock
-- has jumped) would otherwise each wait for the row that the other has locked.
create function wakeful.tend_line(worker_id uuid, queues text[], tasks text[], registered boolean) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if registered and exists (
        select from wakeful.worker w where w.lease_expires_at <= wakeful.now() and w.id <> tend_line.worker_id)
    then
        perform wakeful.hold_worker(worker_id);
    end if;
    perform wakeful.rescue(spare => tend_line.worker_id);
    perform wakeful.expire();
    perform wakeful.give_missing_turns(queues, tasks);
    return wakeful.promote(queues, tasks);
end
$$;

-- A worker's claim. queues[i] is served by lane lanes[i], whose free slots are limits[lanes[i]]; h_* are the horizons,
-- one per queue (null: from the start). `lease`: null for the worker's own lease. `tend`: rescue, expire, promote first; else
-- that is done if the line turns out to be short, since nobody should go to sleep on what fell due unannounced.
-- `sleeps`: 'all' or 'these' declares, when slots stay free, that the worker waits for pokes on all or on these queues
-- (and has it look again in a moment, until no poke can have missed it); null declares nothing. `pass_on`: poke the next
-- sleepers when more is ready than was taken. `alone`: take one that must run alone. `done_*`: jobs to complete first, in the same commit (a turn). `brief`: the worker was poked and is in a hurry:
-- what is in line is taken, and what else there is to see to, such as tending, declaring and what is due next, is left to the
-- claim that follows; one that took nothing needs none, unless it reports so. `free`: how many of a lane's limit are free slots
-- (null: all; below zero: so many jobs are held ready already); what is limited is not held ready behind busy ones. `takes`: while it sleeps, jobs may be
-- handed to it on this channel, if two slots stay free in every lane: what is in line keeps one. Returns the jobs, then the report.
create function wakeful.claim_1(
    worker_id uuid, queues text[], lanes integer[], limits integer[], tasks text[], lease interval default null,
    h_ranks smallint[] default null, h_ready_ats timestamptz[] default null, h_ids uuid[] default null,
    tend boolean default true, sleeps text default null, pass_on boolean default false, alone boolean default false,
    done_ids uuid[] default null, done_epochs bigint[] default null, done_results text[] default null,
    brief boolean default false, free integer[] default null, takes text default null)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_variable
declare
    -- Of all that falls due, nothing from here on is to be missed.
    began constant timestamptz := wakeful.now();
    open_tasks text[] := tasks;
    open_queues text[] := queues;
    lane_queues text[];
    after wakeful.position[];
    tids tid[];
    at timestamptz;
    taken integer;
    started integer;
    tended boolean := tend;
    held boolean := false;
    promoted integer := 0;
    short_queues text[] := '{}';
    -- Of what something is said; null as long as nothing is.
    steered wakeful.steered_pair[];
    lane_pairs wakeful.steered_pair[];
    plain_tasks text[];
    any_paused boolean;
    any_steered boolean;
    picking wakeful.picking;
    picked boolean;
    -- Asked before the line is looked at. Short of that, the worker must look again: see nobody_is_between.
    sure boolean := sleeps is null or brief or wakeful.nobody_is_between();
    patience integer;
    report wakeful.claimed_job;
begin
    report.started_at := began;
    if lease is not null then
        perform wakeful.check_lease(lease);
    end if;
    if done_ids is not null then
        if lease is null then
            -- Before its jobs, as when it leaves.
            perform wakeful.hold_worker(worker_id);
            held := true;
        end if;
        report.refused := array(
            select r.id from wakeful.complete_1(worker_id, done_ids, done_epochs, done_results) r where r.refused = 'stale');
    end if;
    -- One look tells most claims that nothing is paused and nothing is steered.
    select exists (select from wakeful.control c where c.paused),
        exists (select from wakeful.task_policy) or exists (select from wakeful.queue_policy)
    into any_paused, any_steered;
    if any_paused then
        open_tasks := wakeful.open_names('task', tasks);
        open_queues := wakeful.open_names('queue', queues);
    end if;
    plain_tasks := open_tasks;
    if tend and not brief then
        promoted := wakeful.tend_line(worker_id, open_queues, open_tasks, lease is null);
    end if;
    if any_steered then
        steered := nullif(wakeful.steered_pairs(open_queues, open_tasks), '{}');
        plain_tasks := array(select t.task from unnest(open_tasks) t(task) where not exists (
            select from wakeful.task_policy p where p.task = t.task));
    end if;
    for this_lane in 1..cardinality(limits) loop
        select array_agg(q.queue), array_agg(row(coalesce(q.rank, -101), coalesce(q.ready_at, '-infinity'),
            coalesce(q.id, '00000000-0000-0000-0000-000000000000'))::wakeful.position)
        into lane_queues, after
        from unnest(queues, lanes, h_ranks, h_ready_ats, h_ids) q(queue, lane, rank, ready_at, id)
        where q.lane = this_lane and q.queue = any (open_queues);
        taken := 0;
        picked := false;
        if steered is not null then
            lane_pairs := array(select p from unnest(steered) p where p.queue = any (lane_queues));
            -- What is said of a queue steers all its tasks.
            select array_agg(q.queue), array_agg(row(q.rank, q.ready_at, q.id)::wakeful.position) into lane_queues, after
            from unnest(lane_queues, after) q(queue, rank, ready_at, id)
            where not exists (
                select from unnest(lane_pairs) p
                where p.queue = q.queue and (p.queue_gate is not null or p.fair or p.ageing is not null));
        end if;
        while taken < limits[this_lane] loop
            tids := wakeful.choose(lane_queues, plain_tasks, limits[this_lane] - taken, after, alone);
            if lease is null and not held and tids <> '{}' then
                perform wakeful.hold_worker(worker_id);
                held := true;
            end if;
            at := wakeful.now();
            if lane_pairs <> '{}' and not picked then
                picked := true;
                picking := wakeful.pick(lane_pairs, limits[this_lane] - taken, coalesce(free[this_lane], limits[this_lane]) - taken, alone, at);
                -- What came into line while it picked must not have started before it came.
                at := wakeful.now();
                select f.tids, f.picks into tids, picking.picks
                from wakeful.first_in_line(limits[this_lane] - taken, tids, picking.picks) f;
                if lease is null and not held and picking.picks <> '{}' then
                    perform wakeful.hold_worker(worker_id);
                    held := true;
                end if;
                return query select * from wakeful.start_picked(worker_id, picking.picks, lease, at);
                perform wakeful.mark_gates(picking.keys, picking.key_tasks, at) where picking.keys <> '{}';
                taken := taken + cardinality(picking.picks);
                report.held_back := report.held_back or picking.held_back;
                if picking.busy then
                    report.due_in := least(report.due_in, 0.02 + extract(epoch from at - began));
                end if;
            end if;
            return query
            update wakeful.job j
            set state = 2, attempt = j.attempt + 1, epoch = j.epoch + 1, worker_id = claim_1.worker_id, started_at = at,
                lease_expires_at = at + claim_1.lease, updated_at = at
            where j.ctid = any (tids) and (j.expires_at is null or j.expires_at > at)
            returning j.id, j.task::text, j.queue::text, j.payload::jsonb, j.attempt, j.max_attempts, j.epoch, j.rank,
                coalesce(j.turn, j.ready_at), j.run_at, j.created_at, j.started_at, j.lease_expires_at, j.expires_at, j.correlation_id,
                j.parent_id, j.origin_id, j.tenant::text, j.created_by::text, j.metadata::jsonb, j.attempts, j.saved,
                null::double precision, null::boolean, null::uuid[], null::uuid[], null::jsonb, null::boolean;
            get diagnostics started = row_count;
            taken := taken + started;
            if started < cardinality(tids) then
                -- Some had expired: with those out of the way, there may be more behind them.
                perform wakeful.expire_rows(array(select j.id from wakeful.job j where j.ctid = any (tids)), at);
            elsif taken < limits[this_lane] and not tended and not brief then
                tended := true;
                picked := false;
                promoted := wakeful.tend_line(worker_id, open_queues, open_tasks, lease is null);
            else
                exit;
            end if;
        end loop;
        takes := case when coalesce(free[this_lane], limits[this_lane]) - taken > 1 then takes end;
        if taken < limits[this_lane] then
            short_queues := short_queues || lane_queues;
            -- Two are poked for one job: the slower one waits a moment for the quicker one's commit, or it would look again in a second.
            if (not brief or taken = 0) and wakeful.stays_ready(lane_queues, plain_tasks, after, case when brief then 6 else 1 end) then
                report.due_in := least(report.due_in, 1 + extract(epoch from wakeful.now() - began));
            end if;
        elsif pass_on or promoted > 0 then
            if lease is null then
                -- It is busy from here on, and must not be one of the two whom it pokes.
                delete from wakeful.sleeper s where s.worker_id = claim_1.worker_id;
            end if;
            perform wakeful.poke(more.queue, more.task, wakeful.now(), null, null, null)
            from wakeful.some_ready(lane_queues, plain_tasks, after) more where more.queue is not null;
        end if;
        if steered is not null then
            report := wakeful.after_picking(report, lane_pairs, taken, limits[this_lane], pass_on or promoted > 0, worker_id, tasks, began);
            short_queues := short_queues || array(
                select distinct p.queue from unnest(lane_pairs) p where taken < limits[this_lane] and p.queue <> all (short_queues));
        end if;
    end loop;
    if lease is null and not held then
        perform wakeful.hold_worker(worker_id, hold => false);
    end if;
    if brief and short_queues <> '{}' then
        -- Whoever was quicker may be new here, and this the only one to learn that its lease is to be minded from now on.
        if not held then
            patience := wakeful.minds_the_clock(worker_id, queues, tasks);
            if patience is not null then
                report.due_in := least(report.due_in, wakeful.next_due(open_queues, open_tasks, began) + patience);
            end if;
        end if;
        return next report;
        return;
    end if;
    if promoted = 1000 then
        report.due_in := 0;
    end if;
    if tended and lease is null then
        report.schedules := wakeful.due_schedules(worker_id, tasks);
    end if;
    if sleeps is not null then
        sure := not wakeful.declare_sleep(worker_id,
            case when short_queues <> '{}' and sleeps = 'all' then null else short_queues end, tasks, takes => takes) and sure;
        if short_queues <> '{}' and not sure then
            report.due_in := least(report.due_in, 0.05 + extract(epoch from wakeful.now() - began));
        end if;
    elsif alone then
        -- Alone is alone.
        update wakeful.sleeper s set takes = null where s.worker_id = claim_1.worker_id and s.takes is not null;
    end if;
    -- A worker whose slots are all taken minds the clock too: it promotes what falls due, and pokes who has slots.
    if short_queues <> '{}' or 0 >= all (limits) then
        report.suspects := wakeful.suspects_wait(open_queues, open_tasks);
        patience := wakeful.minds_the_clock(worker_id, queues, tasks);
        if patience is not null then
            -- Since this began: what fell due after it had been looked for is found by the next look, at once.
            report.due_in := least(report.due_in, wakeful.next_due(open_queues, open_tasks, began) + patience,
                wakeful.next_slot_in(tasks, began) + patience);
        end if;
    end if;
    return next report;
end
$$;

-- ==== 44_claim_poked.sql
-- The claim of a worker that a poke has woken: the job that the poke names, found by its id.
-- Promise: as in claim_1, for which it is the short way. An idle worker is nearly always poked for one plain job, and takes it by one
--   statement. A job that is gone, held by someone, or special in any way is left to claim_1.
-- Locks: the job's row, unless someone holds it, then a key share on the worker's own row.

-- Takes the job `id`, if it is in line and nothing is said of its task or its queue; else what a brief claim_1 takes. The worker has at
-- least two free slots in every lane (one that is filled by this might have to pass the poke on), and claims again afterwards, for whatever
-- else there is. Returns as claim_1 does; no report with the job that was named.
create function wakeful.claim_poked_1(
    worker_id uuid, id uuid, queues text[], lanes integer[], limits integer[], tasks text[], sleeps text default null,
    pass_on boolean default false, free integer[] default null)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    update wakeful.job j
    set state = 2, attempt = j.attempt + 1, epoch = j.epoch + 1, worker_id = claim_poked_1.worker_id, started_at = t.at, updated_at = t.at
    from (
        select c.ctid as tid, c.expires_at from wakeful.job c
        where c.id = claim_poked_1.id and c.state + 0 = 1 and c.limit_key is null and not c.suspect
          and c.queue = any (claim_poked_1.queues) and c.task = any (claim_poked_1.tasks)
          and not exists (select from wakeful.control s where s.paused)
          and not exists (select from wakeful.task_policy p where p.task = c.task)
          and not exists (select from wakeful.queue_policy r where r.queue = c.queue)
        for update skip locked
    ) c
    cross join lateral (
        select w.lease_expires_at from wakeful.worker w where w.id = claim_poked_1.worker_id and c.tid is not null for key share
    ) w
    -- The clock is read behind both locks: whoever held one of them may have moved the job, or the lease lapsed meanwhile.
    cross join lateral (select wakeful.now() as at where w.lease_expires_at is not null offset 0) t
    where j.ctid = c.tid and w.lease_expires_at > t.at and (c.expires_at is null or c.expires_at > t.at)
    returning j.id, j.task::text, j.queue::text, j.payload::jsonb, j.attempt, j.max_attempts, j.epoch, j.rank,
        coalesce(j.turn, j.ready_at), j.run_at, j.created_at, j.started_at, j.lease_expires_at, j.expires_at, j.correlation_id, j.parent_id, j.origin_id,
        j.tenant::text, j.created_by::text, j.metadata::jsonb, j.attempts, j.saved,
        null::double precision, null::boolean, null::uuid[], null::uuid[], null::jsonb, null::boolean;
    if not found then
        return query select * from wakeful.claim_1(
            worker_id, queues, lanes, limits, tasks, tend => false, sleeps => sleeps, pass_on => pass_on, brief => true, free => free);
    end if;
end
$$;

-- ==== 45_fire.sql
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

-- ==== 46_pulse.sql
-- A worker's pulse, its upkeep, and what its handlers note.
-- Promise: as in claim_1 and beat_1; a note goes through the fence like a settlement.
-- Locks: the worker's row, then those of claim_1; upkeep see make_days and drop_days; note the job's row.

-- Beats, sends the canary, tends, claims from the start of the line, and tells of cancellations. `canary` is a number
-- that the worker expects to hear; null sends none. every_lane is the lane that also serves queues not named, in which
-- jobs of these tasks wait. Raises WF006 when the worker's lease has lapsed.
create function wakeful.pulse_1(
    worker_id uuid, lease interval, canary bigint,
    queues text[], lanes integer[], limits integer[], tasks text[], every_lane integer default null, sleeps text default null,
    free integer[] default null, takes text default null)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_variable
declare
    report wakeful.claimed_job;
    found_queues text[];
begin
    if not wakeful.beat_1(worker_id, lease) then
        perform wakeful.hold_worker(worker_id);
    end if;
    if canary is not null then
        perform pg_notify(wakeful.channel_of(worker_id), json_build_object('canary', canary)::text);
    end if;
    if every_lane is not null then
        found_queues := array(
            select distinct p.queue from wakeful.waiting_pairs() p where p.task = any (tasks) and p.queue <> all (queues));
        queues := queues || found_queues;
        lanes := lanes || array_fill(every_lane, array[cardinality(found_queues)]);
    end if;
    -- Who has no slot free pokes those who have: it may have been poked in their place.
    return query select * from wakeful.claim_1(
        worker_id, queues, lanes, limits, tasks, sleeps => sleeps, pass_on => 0 >= all (limits), free => free, takes => takes);
    report.cancelled := array(
        select j.id from wakeful.job j
        where j.state = 2 and j.worker_id = pulse_1.worker_id and j.cancel_requested_at is not null);
    -- Told under any load: a worker that is never short of jobs would not hear of them otherwise.
    report.suspects := wakeful.suspects_wait(wakeful.open_names('queue', queues), wakeful.open_names('task', tasks));
    return next report;
end
$$;

-- The daily round: days of history made and dropped (keep: null keeps all), counts folded.
create function wakeful.upkeep_1(keep interval) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    perform wakeful.fold_tally();
    perform wakeful.fold_metrics();
    perform wakeful.roll_metrics();
    perform wakeful.make_days();
    -- Last: until the commit nobody can settle what it holds.
    perform wakeful.drop_days(upkeep_1.keep) where upkeep_1.keep is not null;
end
$$;

-- What a handler notes on its running job, through the fence: progress, a checkpoint for the next attempt, counters that
-- are added up. Null leaves the part as it is. Returns false when the fence refuses.
create function wakeful.note_1(
    worker_id uuid, id uuid, epoch bigint, progress jsonb default null, saved jsonb default null, counters jsonb default null)
    returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    update wakeful.job j
    set progress = coalesce(note_1.progress, j.progress),
        saved = coalesce(note_1.saved, j.saved),
        counters = case when note_1.counters is null then j.counters else wakeful.added_up(j.counters, note_1.counters) end,
        updated_at = wakeful.now()
    where j.id = note_1.id and j.epoch = note_1.epoch and j.worker_id = note_1.worker_id and j.state + 0 = 2;
    return found;
end
$$;

-- ==== 48_loops.sql
-- Other people's loops: claims by callers outside the fleet, each job with a lease of its own, who may sleep until poked.
-- Promise: as in claim_1. Who sleeps here is on no list of workers, so its declaration lapses by itself: one whose process
--   was killed is poked for a minute at most. Null queues or tasks stand for all that wait.
-- Locks: see claim_1; the caller's row in sleeper.

-- Claims up to `want` jobs; one that must run alone only if there is nothing else. `sleeps_for`: when nothing was taken, or
-- `others` of the same process wait on, declares for that long that the process waits for pokes on `sleep_queues` (null: all);
-- otherwise takes the declaration back, as zero always does; null leaves it as it is. Returns the jobs, then the report.
create function wakeful.claim_any_1(
    worker_id uuid, queues text[], tasks text[], want integer, lease interval, sleeps_for interval default null,
    sleep_queues text[] default null, others boolean default false, pass_on boolean default false)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    -- Before version 18 a scan that is turned off counts as so dear that it is compiled, which takes half a second.
    set jit = off
as $$
#variable_conflict use_variable
declare
    served_queues text[] := queues;
    served_tasks text[] := tasks;
    taken wakeful.claimed_job;
    report wakeful.claimed_job;
    filled boolean := false;
    began constant timestamptz := wakeful.now();
    sure constant boolean := sleeps_for is null or wakeful.nobody_is_between();
begin
    if worker_id is null or want is null then
        perform wakeful.refuse('WF003', 'worker_id or want is missing', 'Give an id of your own, and how many jobs you can take.');
    end if;
    perform wakeful.check_lease(lease);
    if sleeps_for > wakeful.longest() then
        perform wakeful.refuse('WF003', format('sleeps_for is longer than %s', wakeful.longest()), 'Give an interval such as 1 minute.');
    end if;
    if queues is null or tasks is null then
        -- First, so that the jobs it takes back are among those that wait.
        perform wakeful.rescue();
        select coalesce(queues, array_agg(distinct p.queue), '{}'), coalesce(tasks, array_agg(distinct p.task), '{}')
        into served_queues, served_tasks from wakeful.waiting_pairs() p
        where (queues is null or p.queue = any (queues)) and (tasks is null or p.task = any (tasks));
    end if;
    for must_run_alone in 0..1 loop
        exit when filled or must_run_alone = 1 and report.suspects is not true;
        for taken in
            select * from wakeful.claim_1(worker_id, served_queues, array_fill(1, array[cardinality(served_queues)]),
                array[case must_run_alone when 0 then want else least(want, 1) end], served_tasks, lease,
                tend => must_run_alone = 0, pass_on => pass_on, alone => must_run_alone = 1)
        loop
            if taken.id is null then
                report := taken;
            else
                filled := true;
                return next taken;
            end if;
        end loop;
    end loop;
    if served_queues = '{}' or served_tasks = '{}' then
        report.due_in := least(report.due_in, wakeful.next_due('{}', '{}', began));
    end if;
    if sleeps_for > interval '0' and (others or not filled) then
        perform wakeful.declare_sleep(worker_id, sleep_queues, null, wakeful.now() + sleeps_for);
        perform wakeful.forget_lapsed_sleepers();
        if not sure then
            report.due_in := least(report.due_in, 0.05 + extract(epoch from wakeful.now() - began));
        end if;
    elsif sleeps_for is not null then
        perform wakeful.declare_sleep(worker_id, '{}', null);
    end if;
    return next report;
end
$$;

-- Takes back the declaration of a process in which nobody waits any more.
create function wakeful.wake_1(worker_id uuid) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform wakeful.declare_sleep(wake_1.worker_id, '{}', null);
end
$$;

-- Removes the declarations that have lapsed. Rows that someone holds are being renewed or removed already.
create function wakeful.forget_lapsed_sleepers() returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    delete from wakeful.sleeper s where s.worker_id in (
        select l.worker_id from wakeful.sleeper l where l.until <= wakeful.now() for update skip locked);
end;

-- Claims up to `want` jobs, each with a lease of its own; null queues or tasks stand for all. For any language and psql.
create function wakeful.claim(
    worker_id uuid, queues text[] default null, tasks text[] default null, want integer default 1,
    lease interval default '5 minutes')
    returns table (id uuid, task text, queue text, payload jsonb, attempt integer, max_attempts integer, epoch bigint,
        correlation_id uuid, tenant text, metadata jsonb, created_at timestamptz, lease_expires_at timestamptz)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select c.id, c.task, c.queue, c.payload, c.attempt, c.max_attempts, c.epoch, c.correlation_id, c.tenant, c.metadata,
        c.created_at, c.lease_expires_at
    from wakeful.claim_any_1(claim.worker_id, claim.queues, claim.tasks, claim.want, claim.lease) c
    where c.id is not null
    order by c.rank, c.ready_at, c.id;
end
$$;

-- ==== 50_attempts.sql
-- The end of an attempt, and of a job: the moves that settle, rescue, cancel and expire share.
-- Promise: each takes rows that its caller has locked; a row leaves `job` in the statement that writes it elsewhere,
--   and a rerun that was asked for while it ran becomes the next job in the same transaction.
-- Locks: none of its own.

-- How one attempt ended. retry_in: the wait before the next start, null for no further start. charged: whether this
-- start counts.
create type wakeful.ended_attempt as (
    id uuid, outcome text, code text, message text, details jsonb, retry_in interval, charged boolean
);

-- The job's history with the attempt that is ending; unchanged for a job that is not running.
create function wakeful.history_of(job wakeful.job, ended wakeful.ended_attempt, at timestamptz) returns jsonb
    language sql stable
    return case when (job).state = 2 then wakeful.with_attempt((job).attempts, jsonb_strip_nulls(jsonb_build_object(
        'attempt', (job).attempt, 'epoch', (job).epoch, 'worker_id', (job).worker_id, 'started_at', (job).started_at,
        'ended_at', at, 'outcome', (ended).outcome, 'code', (ended).code, 'message', (ended).message))
        -- Apart: what is null inside the details was told, and stays.
        || case when (ended).details is null then '{}' else jsonb_build_object('details', (ended).details) end)
        else (job).attempts end;

-- Ends the running attempt of locked rows: each is started again when and if it may be, cancelled if that was asked for
-- meanwhile, and dead otherwise.
create function wakeful.end_attempts(ends wakeful.ended_attempt[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    ids constant uuid[] := array(select e.id from unnest(ends) e);
    slots constant wakeful.slot[] := wakeful.slots_of(ids);
    again record;
begin
    -- Those that wait again; the others are measured where they go. Before they move: ready_at is about to change.
    perform wakeful.measure(array(
        select row(j.task, j.tenant, e.outcome, j.started_at, j.ready_at, null)::wakeful.measured_run
        from unnest(ends) e join wakeful.job j on j.id = e.id
        where j.id = any (ids) and j.state + 0 = 2 and j.cancel_requested_at is null
          and e.retry_in is not null and (not e.charged or j.attempt < j.max_attempts)), at);
    for again in
        with waiting as (
            update wakeful.job j
            set state = case when e.retry_in > interval '0' then 0 else 1 end,
                run_at = at + e.retry_in,
                ready_at = case when e.retry_in > interval '0' then null else at end,
                attempt = case when e.charged then j.attempt else j.attempt - 1 end,
                attempts = wakeful.history_of(j, e, at),
                worker_id = null, lease_expires_at = null, limit_key = null, queue_slot = false, updated_at = at
            from unnest(ends) e
            where j.id = any (ids) and j.id = e.id and j.state + 0 = 2 and j.cancel_requested_at is null
              and e.retry_in is not null and (not e.charged or j.attempt < j.max_attempts)
            returning j.queue, j.task, j.run_at, j.rank, j.ready_at, j.id
        )
        select distinct on (w.queue, w.task) w.* from waiting w
        order by w.queue, w.task, (w.ready_at is null), w.rank, w.run_at, w.id
    loop
        perform wakeful.poke(again.queue, again.task, again.run_at, again.rank, again.ready_at, again.id);
    end loop;
    perform wakeful.retire_cancelled(array(
        select e from unnest(ends) e join wakeful.job j on j.id = e.id
        where j.id = any (ids) and j.state + 0 = 2 and j.cancel_requested_at is not null), at);
    perform wakeful.retire_dead(array(
        select e from unnest(ends) e join wakeful.job j on j.id = e.id where j.id = any (ids) and j.state + 0 = 2), at);
    if slots <> '{}' then
        perform wakeful.free_slots(slots);
    end if;
end
$$;

-- The slots that running jobs among these have.
create function wakeful.slots_of(ids uuid[]) returns wakeful.slot[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    if not exists (select from wakeful.task_policy) and not exists (select from wakeful.queue_policy) then
        return '{}';
    end if;
    return array(
        select row(j.queue, j.task, j.limit_key)::wakeful.slot from wakeful.job j
        where j.id = any (ids) and j.state + 0 = 2 and j.limit_key is not null);
end
$$;

-- Moves locked rows to history as cancelled; returns how many.
create function wakeful.retire_cancelled(ends wakeful.ended_attempt[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    ids constant uuid[] := array(select e.id from unnest(ends) e);
    retired integer;
    reruns jsonb[];
    ran wakeful.measured_run[];
    slots wakeful.slot[];
begin
    if coalesce(cardinality(ends), 0) = 0 then
        return 0;
    end if;
    with gone as (
        delete from wakeful.job j using unnest(ends) e where j.id = any (ids) and j.id = e.id returning j as job, e as ended
    ), kept as (
        insert into wakeful.finished_job (
            id, queue, task, state, rank, attempt, max_attempts, epoch, run_at, ready_at, started_at, finished_at, expires_at,
            created_at, worker_id, correlation_id, parent_id, origin_id, dedup_key, tenant, created_by, cancel_reason,
            payload, metadata, attempts, progress, counters)
        select (g.job).id, (g.job).queue, (g.job).task, 5, (g.job).rank, (g.job).attempt, (g.job).max_attempts,
            (g.job).epoch, (g.job).run_at, (g.job).ready_at, (g.job).started_at, at, (g.job).expires_at, (g.job).created_at,
            (g.job).worker_id, (g.job).correlation_id, (g.job).parent_id, (g.job).origin_id, (g.job).dedup_key,
            (g.job).tenant, (g.job).created_by, coalesce((g.job).cancel_reason, (g.ended).message), (g.job).payload,
            (g.job).metadata, wakeful.history_of(g.job, g.ended, at), (g.job).progress, (g.job).counters
        from gone g
    ), counted as (
        insert into wakeful.tally_delta (day, task, state, jobs)
        select wakeful.day_of(at), (g.job).task, 5, count(*) from gone g group by (g.job).task
    )
    select count(*), array_agg((g.job).rerun) filter (where (g.job).rerun is not null),
        array_agg(row((g.job).task, (g.job).tenant, 'cancelled', (g.job).started_at, (g.job).ready_at, (g.job).counters)
            ::wakeful.measured_run) filter (where (g.job).state = 2),
        array_agg(row((g.job).queue, (g.job).task, (g.job).limit_key)::wakeful.slot)
            filter (where (g.job).state = 2 and (g.job).limit_key is not null)
    into retired, reruns, ran, slots from gone g;
    perform wakeful.measure(ran, at) where ran is not null;
    perform wakeful.start_reruns(reruns);
    if slots is not null then
        perform wakeful.free_slots(slots);
    end if;
    return retired;
end
$$;

-- Moves locked rows to the dead letters; returns how many.
create function wakeful.retire_dead(ends wakeful.ended_attempt[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    ids constant uuid[] := array(select e.id from unnest(ends) e);
    retired integer;
    reruns jsonb[];
    ran wakeful.measured_run[];
begin
    if coalesce(cardinality(ends), 0) = 0 then
        return 0;
    end if;
    with gone as (
        delete from wakeful.job j using unnest(ends) e where j.id = any (ids) and j.id = e.id returning j as job, e as ended
    ), kept as (
        insert into wakeful.dead_letter (
            id, task, queue, tenant, correlation_id, error_code, error_message, error_details, died_at, original_job)
        select (g.job).id, (g.job).task, (g.job).queue, (g.job).tenant, (g.job).correlation_id,
            coalesce((g.ended).code, 'unknown'), coalesce((g.ended).message, ''), (g.ended).details, at,
            to_jsonb(g.job) - 'pokes' - 'rerun' || jsonb_build_object('attempts', wakeful.history_of(g.job, g.ended, at))
        from gone g
    ), counted as (
        insert into wakeful.tally_delta (day, task, state, jobs)
        select wakeful.day_of(at), (g.job).task, 4, count(*) from gone g group by (g.job).task
    )
    select count(*), array_agg((g.job).rerun) filter (where (g.job).rerun is not null),
        array_agg(row((g.job).task, (g.job).tenant, 'dead', (g.job).started_at, (g.job).ready_at, (g.job).counters)
            ::wakeful.measured_run) filter (where (g.job).state = 2)
    into retired, reruns, ran from gone g;
    perform wakeful.measure(ran, at) where ran is not null;
    perform wakeful.start_reruns(reruns);
    return retired;
end
$$;

-- Makes the next jobs out of what was asked for while their twins ran. They were taken on then: a switch that was turned
-- since does not lose them. Their twins leave in this very transaction, so nobody else can have their keys.
create function wakeful.start_reruns(reruns jsonb[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    at constant timestamptz := wakeful.now();
    asked constant wakeful.asked_job[] := array(
        select jsonb_populate_record(null::wakeful.asked_job, r.asked || jsonb_build_object('place', r.place))
        from unnest(reruns) with ordinality r(asked, place));
begin
    if asked <> '{}' then
        perform wakeful.insert_asked(asked, wakeful.speakers(asked, at), at);
    end if;
end
$$;

-- Ends the attempts of locked rows whose own lease lapsed; returns how many.
create function wakeful.end_lapsed(ids uuid[], at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if ids <> '{}' then
        perform wakeful.end_attempts(array(
            select row(i.id, 'lapsed', 'lease_lapsed', 'its lease was not renewed in time', null, interval '0', true)::wakeful.ended_attempt
            from unnest(ids) i(id)), at);
    end if;
    return cardinality(ids);
end
$$;

-- Ends the attempts of locked rows whose worker's lease lapsed; returns how many. A job that was alone in its worker
-- brought it down, as far as anyone can tell: that is charged, and the third time kills it. Jobs that shared a worker lose
-- nothing; the second time they come under suspicion and run alone. A server that was restarted since the worker's last
-- beat is what kept it from beating: no crash at all.
create function wakeful.end_crashed(ids uuid[], alone boolean, restarted boolean, at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    if ids = '{}' then
        return 0;
    end if;
    update wakeful.job j
    set crashes = j.crashes + case when alone and not restarted then 1 else 0 end,
        shared_crashes = j.shared_crashes + case when alone or restarted then 0 else 1 end,
        suspect = j.suspect or not restarted and (alone or j.shared_crashes >= 1)
    where j.id = any (ids);
    perform wakeful.end_attempts(array(
        select row(j.id, 'crashed', 'worker_crashed',
            case when j.crashes >= 3 then 'its worker died three times while it ran alone' else 'its worker stopped beating' end,
            null, case when j.crashes < 3 then interval '0' end, alone and not restarted)::wakeful.ended_attempt
        from wakeful.job j where j.id = any (ids)), at);
    return cardinality(ids);
end
$$;

-- ==== 52_settle.sql
-- Settle: what becomes of a claimed job, by the one who holds it.
-- Promise: the fence is (id, epoch, worker_id) with the job running. Whatever does not pass it changes nothing, and is
--   told: the set-wise forms return the refused rows, the single ones raise WF001, so that a transaction they are part
--   of fails. A row that this very claim has settled already is refused as 'settled', anything else as 'stale'.
-- Locks: the jobs' rows in id order, waiting for them; extend skips locked rows and reports them as 'locked'.

-- Completes jobs. The state is compared as state + 0: the primary key must find the row, not an index on state.
create function wakeful.complete_1(worker_id uuid, ids uuid[], epochs bigint[], results text[] default null)
    returns table (id uuid, refused text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    tids tid[];
    done uuid[];
    reruns jsonb[];
    metered wakeful.measured_run[];
    slots wakeful.slot[];
    listened boolean;
begin
    -- No join that a plan made while the table was empty could turn round, to walk all of it.
    tids := array(
        select l.tid
        from (select s.id, s.epoch from unnest(ids, epochs) s(id, epoch) order by s.id) s
        cross join lateral (
            select j.ctid as tid from wakeful.job j
            where j.id = s.id and j.epoch = s.epoch and j.worker_id = complete_1.worker_id and j.state + 0 = 2
            for update
        ) l);
    -- A later statement, hence a later snapshot: it sees the rows as they were locked.
    with gone as (
        delete from wakeful.job j where j.ctid = any (tids) returning j.*
    ), kept as (
        insert into wakeful.finished_job (
            id, queue, task, state, rank, attempt, max_attempts, epoch, run_at, ready_at, started_at, finished_at, expires_at,
            created_at, worker_id, correlation_id, parent_id, origin_id, dedup_key, tenant, created_by, payload, metadata,
            attempts, progress, counters, result)
        select g.id, g.queue, g.task, 3, g.rank, g.attempt, g.max_attempts, g.epoch, g.run_at, g.ready_at, g.started_at,
            at, g.expires_at, g.created_at, g.worker_id, g.correlation_id, g.parent_id, g.origin_id, g.dedup_key, g.tenant,
            g.created_by, g.payload, g.metadata, g.attempts, g.progress, g.counters,
            case
                when results is null then null
                when epochs[array_position(ids, g.id)] = g.epoch then results[array_position(ids, g.id)]::jsonb
                else (select s.result::jsonb from unnest(ids, epochs, results) s(id, epoch, result)
                    where s.id = g.id and s.epoch = g.epoch limit 1) end
        from gone g
    ), counted as (
        insert into wakeful.tally_delta (day, task, state, jobs)
        select wakeful.day_of(at), g.task, 3, count(*) from gone g group by g.task
    ), measured as (
        insert into wakeful.metric_delta (minute, task, outcome, run_bucket, wait_bucket, runs, run_seconds, wait_seconds)
        select date_trunc('minute', at), m.task, 'completed', wakeful.bucket_of(m.run), wakeful.bucket_of(m.wait), count(*),
            sum(m.run), sum(m.wait)
        from (select g.task, date_part('epoch', at - g.started_at) as run, date_part('epoch', g.started_at - g.ready_at) as wait
            from gone g) m
        group by m.task, 4, 5
    )
    select array_agg(g.id), array_agg(g.rerun) filter (where g.rerun is not null),
        array_agg(row(g.task, g.tenant, 'completed', g.started_at, g.ready_at, g.counters)::wakeful.measured_run)
            filter (where g.tenant is not null or g.counters is not null),
        array_agg(row(g.queue, g.task, g.limit_key)::wakeful.slot) filter (where g.limit_key is not null),
        -- Nearly always none does, and a success then writes nothing.
        exists (select from wakeful.breaker b where b.attentive)
    into done, reruns, metered, slots, listened from gone g;
    if metered is not null then
        perform wakeful.meter(metered, at);
    end if;
    if slots is not null then
        perform wakeful.free_slots(slots);
    end if;
    if listened and done is not null then
        perform wakeful.breakers_hear_of(done, at);
    end if;
    if reruns is not null then
        perform wakeful.start_reruns(reruns);
    end if;
    if coalesce(cardinality(done), 0) < cardinality(ids) then
        return query select * from wakeful.refusals(complete_1.worker_id, ids, epochs, done);
    end if;
end
$$;

-- Whether a history tells that this claim was ended by its own holder, rather than taken from it.
create function wakeful.settled_by(attempts jsonb, epoch bigint, worker_id uuid) returns boolean
    language sql immutable parallel safe
    return exists (
        select from jsonb_array_elements(attempts) a(entry)
        where a.entry @> jsonb_build_object('epoch', epoch, 'worker_id', worker_id)
          and a.entry ->> 'outcome' not in ('lapsed', 'crashed'));

-- Why each row that is not in `done` was refused.
create function wakeful.refusals(worker_id uuid, ids uuid[], epochs bigint[], done uuid[])
    returns table (id uuid, refused text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    select s.id, case
        when exists (
            select from wakeful.finished_job f
            where f.id = s.id and f.epoch = s.epoch and f.worker_id = refusals.worker_id
              and (f.state = 3 or wakeful.settled_by(f.attempts, s.epoch, refusals.worker_id))) then 'settled'
        when exists (
            select from wakeful.dead_letter d
            where d.id = s.id and wakeful.settled_by(d.original_job -> 'attempts', s.epoch, refusals.worker_id)) then 'settled'
        when exists (
            select from wakeful.job j
            where j.id = s.id and wakeful.settled_by(j.attempts, s.epoch, refusals.worker_id)) then 'settled'
        else 'stale' end
    from unnest(ids, epochs) s(id, epoch)
    where done is null or s.id <> all (done);
end
$$;

-- Locks through the fence, in id order, waiting; returns the places of the claims that pass it. By place, because a set may
-- hold a stale and the current claim of one job. The ids are asked for twice, and joined by hash, so that no plan walks the
-- whole table: to one that was made while it was empty, that looks cheapest.
create function wakeful.pass_fence(worker_id uuid, ids uuid[], epochs bigint[]) returns integer[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
begin
    return array(
        select s.place::integer
        from (select s.id, s.epoch, s.place from unnest(ids, epochs) with ordinality s(id, epoch, place) order by s.id) s
        join wakeful.job j on j.id = s.id
        where j.id = any (ids) and j.epoch = s.epoch and j.worker_id = pass_fence.worker_id and j.state + 0 = 2
        for update of j);
end
$$;

-- Ends attempts otherwise than by completion. outcomes: failed, snoozed, released, cancelled. retry_ins: null for a
-- failed one means no further start. A cancelled one is over; a snoozed or released one is not charged. faults: whether a failure
-- is the fault of the service behind the task's breaker; null for yes.
create function wakeful.settle_1(
    worker_id uuid, ids uuid[], epochs bigint[], outcomes text[], codes text[], messages text[], details text[],
    retry_ins interval[], faults boolean[] default null)
    returns table (id uuid, refused text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    passed constant integer[] := wakeful.pass_fence(settle_1.worker_id, ids, epochs);
    ends constant wakeful.ended_attempt[] := array(
        select row(s.id, s.outcome, s.code, s.message, s.details::jsonb, s.retry_in, s.outcome = 'failed')::wakeful.ended_attempt
        from unnest(ids, outcomes, codes, messages, settle_1.details, retry_ins) with ordinality
            s(id, outcome, code, message, details, retry_in, place)
        where s.place = any (passed));
begin
    if exists (select from unnest(outcomes) o(outcome)
        where o.outcome is null or o.outcome not in ('failed', 'snoozed', 'released', 'cancelled')) then
        perform wakeful.refuse('WF003', 'an outcome is not known', 'Use failed, snoozed, released or cancelled.');
    elsif exists (select from unnest(outcomes, retry_ins) o(outcome, retry_in)
        where o.retry_in < interval '0' or o.retry_in > wakeful.longest() or o.retry_in is null and o.outcome in ('snoozed', 'released')) then
        perform wakeful.refuse('WF003', format('a wait is missing, negative, or longer than %s', wakeful.longest()),
            'Give zero or more; null only for a failure that is not tried again.');
    end if;
    if exists (select from wakeful.task_policy p where p.breaker is not null) then
        perform wakeful.breakers_hear_of_failed(array(
            select s.id from unnest(ids, outcomes, faults) with ordinality s(id, outcome, fault, place)
            where s.place = any (passed) and s.outcome = 'failed' and s.fault is not false), at);
    end if;
    perform wakeful.retire_cancelled(array(select e from unnest(ends) e where e.outcome = 'cancelled'), at);
    perform wakeful.end_attempts(array(select e from unnest(ends) e where e.outcome <> 'cancelled'), at);
    if cardinality(passed) < cardinality(ids) then
        return query select * from wakeful.refusals(settle_1.worker_id, ids, epochs, array(select e.id from unnest(ends) e));
    end if;
end
$$;

-- Renews the leases of jobs that have one of their own, and gives one to those that live by their worker's.
create function wakeful.extend_1(worker_id uuid, ids uuid[], epochs bigint[], leases interval[])
    returns table (id uuid, refused text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
    set enable_nestloop = off set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    passed integer[];
begin
    -- A job without any lease would be nobody's to rescue.
    if cardinality(leases) is distinct from cardinality(ids) or (interval '0' < all (leases) and wakeful.longest() >= all (leases)) is not true then
        perform wakeful.refuse('WF003', format('a lease is missing, not positive, or longer than %s', wakeful.longest()),
            'Give one for each job, such as 5 minutes.');
    end if;
    passed := array(
        select s.place::integer
        from (select s.id, s.epoch, s.place from unnest(ids, epochs) with ordinality s(id, epoch, place) order by s.id) s
        join wakeful.job j on j.id = s.id
        where j.id = any (ids) and j.epoch = s.epoch and j.worker_id = extend_1.worker_id and j.state + 0 = 2
        for update of j skip locked);
    update wakeful.job j set lease_expires_at = at + s.lease, updated_at = at
    from unnest(ids, leases) with ordinality s(id, lease, place)
    where j.id = any (ids) and j.id = s.id and s.place = any (passed);
    if cardinality(passed) < cardinality(ids) then
        return query
        select r.id, case when r.id = any (array(
            select j.id from unnest(ids, epochs) s(id, epoch) join wakeful.job j on j.id = s.id and j.epoch = s.epoch
            where j.id = any (ids) and j.worker_id = extend_1.worker_id and j.state + 0 = 2)) then 'locked' else r.refused end
        from wakeful.refusals(extend_1.worker_id, ids, epochs,
            array(select s.id from unnest(ids) with ordinality s(id, place) where s.place = any (passed))) r;
    end if;
end
$$;

-- Whether this claim completed the job: what a client asks whose COMMIT was left unanswered.
create function wakeful.completed_by_1(id uuid, epoch bigint, worker_id uuid) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
begin
    return exists (
        select from wakeful.finished_job f
        where f.id = completed_by_1.id and f.epoch = completed_by_1.epoch and f.worker_id = completed_by_1.worker_id
          and f.state = 3);
end
$$;

-- ==== 54_settle_forms.sql
-- The single forms of settling, for psql, any language, and a user's own transaction.
-- Promise, locks: as in the set-wise forms. Each raises WF001 when the fence refuses, so the transaction it is part of
--   fails; a repeat of a settlement that was already taken is refused too. Public signatures.
create function wakeful.must_pass(id uuid, refused text) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform wakeful.refuse('WF001', format('job %s is not held under this epoch and worker any more (%s)', must_pass.id, refused),
        'Stop working on it: its lease was lost or it is settled; whoever holds it will finish it.',
        jsonb_build_object('id', must_pass.id, 'refused', must_pass.refused));
end
$$;

create function wakeful.complete(id uuid, epoch bigint, worker_id uuid, result jsonb default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    perform wakeful.must_pass(r.id, r.refused)
    from wakeful.complete_1(complete.worker_id, array[complete.id], array[complete.epoch], array[result::text]) r;
end
$$;

-- retry_in: the wait before the next start; null takes the default back-off. no_retry: dead at once.
create function wakeful.fail(
    id uuid, epoch bigint, worker_id uuid, code text, message text, details jsonb default null,
    retry_in interval default null, no_retry boolean default false) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
    wait interval := fail.retry_in;
begin
    if fail.retry_in < interval '0' or fail.retry_in > wakeful.longest() then
        perform wakeful.refuse('WF003', format('retry_in %s is negative, or longer than %s', fail.retry_in, wakeful.longest()),
            'Give a wait of zero or more that ends.');
    end if;
    if wait is null and not no_retry then
        select wakeful.backoff(j.attempt) into wait from wakeful.job j where j.id = fail.id;
    end if;
    perform wakeful.must_pass(r.id, r.refused)
    from wakeful.settle_1(fail.worker_id, array[fail.id], array[fail.epoch], array['failed'], array[code], array[message],
        array[details::text], array[case when not no_retry then wait end]) r;
end
$$;

create function wakeful.snooze(id uuid, epoch bigint, worker_id uuid, delay interval, reason text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    if snooze.delay is null or snooze.delay < interval '0' or snooze.delay > wakeful.longest() then
        perform wakeful.refuse('WF003', format('delay is missing, negative, or longer than %s', wakeful.longest()),
            'Give an interval of zero or more.');
    end if;
    perform wakeful.must_pass(r.id, r.refused)
    from wakeful.settle_1(snooze.worker_id, array[snooze.id], array[snooze.epoch], array['snoozed'], array[null], array[reason],
        array[null], array[snooze.delay]) r;
end
$$;

create function wakeful.release(id uuid, epoch bigint, worker_id uuid) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    perform wakeful.must_pass(r.id, r.refused)
    from wakeful.settle_1(release.worker_id, array[release.id], array[release.epoch], array['released'], array[null], array[null],
        array[null], array[interval '0']) r;
end
$$;

-- Returns false when another transaction holds the row just now: try again, the lease is as it was.
create function wakeful.extend(id uuid, epoch bigint, worker_id uuid, lease interval) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
    answer text;
begin
    perform wakeful.check_lease(extend.lease);
    select r.refused into answer
    from wakeful.extend_1(extend.worker_id, array[extend.id], array[extend.epoch], array[extend.lease]) r;
    if answer <> 'locked' then
        perform wakeful.must_pass(extend.id, answer);
    end if;
    return answer is null;
end
$$;

-- ==== 56_cancel.sql
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

-- ==== 58_fleet.sql
-- The fleet: a worker comes, beats and goes.
-- Promise: a worker's lease covers all its jobs with one row a beat. A lease that has lapsed is not taken up again: the
--   worker registers under a new id, since its jobs may be with others by now.
-- Locks: the worker's own row.
create function wakeful.register_1(
    worker_id uuid, name text, queues text[], tasks text[], slots integer, lease interval, details jsonb default null)
    returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    at constant timestamptz := wakeful.now();
begin
    if num_nulls(register_1.worker_id, register_1.name, register_1.tasks, register_1.slots) > 0 then
        perform wakeful.refuse('WF003', 'a worker needs an id, a name, tasks and slots', 'Give all four; tasks may be empty.');
    end if;
    perform wakeful.check_lease(register_1.lease);
    insert into wakeful.worker (id, name, queues, tasks, slots, started_at, beat_at, lease_expires_at, details)
    values (register_1.worker_id, register_1.name, register_1.queues, register_1.tasks, register_1.slots, at, at,
        at + register_1.lease, register_1.details);
end
$$;

-- Renews the worker's lease; false when it has lapsed.
create function wakeful.beat_1(worker_id uuid, lease interval) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
    lapses_at timestamptz;
    at timestamptz;
begin
    perform wakeful.check_lease(beat_1.lease);
    -- The clock is read behind the lock: the lease may have lapsed while this waited.
    select w.lease_expires_at into lapses_at from wakeful.worker w where w.id = beat_1.worker_id for no key update;
    at := wakeful.now();
    if lapses_at is null or lapses_at <= at then
        return false;
    end if;
    update wakeful.worker w set beat_at = at, lease_expires_at = at + beat_1.lease where w.id = beat_1.worker_id;
    return true;
end
$$;

-- The claims that the worker holds: what it asks when the answer to a claim was lost. It gives back those it never heard of.
create function wakeful.held_1(worker_id uuid) returns table (id uuid, epoch bigint)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query select j.id, j.epoch from wakeful.job j where j.state = 2 and j.worker_id = held_1.worker_id;
end
$$;

-- Takes the worker off the list. Jobs it still holds are released, uncharged.
create function wakeful.leave_1(worker_id uuid) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    at constant timestamptz := wakeful.now();
    held uuid[];
begin
    perform from wakeful.worker w where w.id = leave_1.worker_id for update;
    held := array(
        select j.id from wakeful.job j where j.state = 2 and j.worker_id = leave_1.worker_id order by j.id for update);
    perform wakeful.end_attempts(array(
        select row(h.id, 'released', null, null, null, interval '0', false)::wakeful.ended_attempt from unnest(held) h(id)), at);
    delete from wakeful.sleeper s where s.worker_id = leave_1.worker_id;
    delete from wakeful.worker w where w.id = leave_1.worker_id;
    return cardinality(held);
end
$$;

-- ==== 60_operate.sql
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

-- ==== 62_control.sql
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

-- ==== 63_policy.sql
-- Policies: what is said about breakers, tasks and queues. Workers say what their code declares; a person may say it in SQL.
-- Promise: the last word holds, for every claim by anyone from its commit on. What is said anew and is the same writes nothing. Jobs that
--   a limit had parked are put back in line when it changes, and starts that an old rate had to wait for do not wait for a new one.
-- Locks: rows of breakers that are changed, in the order of names; the rows of the policies; for tasks whose policy changes an advisory lock,
--   which waits for claims that park or start parked jobs, then those jobs, then the gates.

-- Says how a breaker judges; null keeps what it has, or the default. Its state stays as it is.
create function wakeful.set_breaker(
    name text, threshold integer default null, span interval default null, open_for interval default null,
    open_cap interval default null, probes integer default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform wakeful.check_name('breaker', name);
    if least(threshold, probes) < 1 or greatest(threshold, probes) > 1000 then
        perform wakeful.refuse('WF003', format('threshold or probes of breaker %s is not from 1 to 1000', name), 'Give a number such as 5.');
    elsif least(span, open_for, open_cap) <= interval '0' or greatest(span, open_for, open_cap) > wakeful.longest() then
        perform wakeful.refuse('WF003', format('a span of breaker %s is not positive, or longer than %s', name, wakeful.longest()),
            'Give intervals such as 60 seconds.');
    end if;
    -- A look first: one that is said anew must not be waited for by who settles.
    if exists (
        select from wakeful.breaker b
        where b.name = set_breaker.name and b.threshold = coalesce(set_breaker.threshold, b.threshold)
          and b.span = coalesce(set_breaker.span, b.span) and b.open_for = coalesce(set_breaker.open_for, b.open_for)
          and b.open_cap = greatest(coalesce(set_breaker.open_cap, b.open_cap), b.open_for)
          and b.probes = coalesce(set_breaker.probes, b.probes))
    then
        return;
    end if;
    insert into wakeful.breaker as b (name, threshold, span, open_for, open_cap, probes, updated_at)
    values (name, coalesce(threshold, 5), coalesce(span, '60 seconds'), coalesce(open_for, '60 seconds'),
        coalesce(open_cap, greatest(interval '10 minutes', open_for)), coalesce(probes, 1), wakeful.now())
    on conflict on constraint breaker_pkey do update
    set threshold = coalesce(set_breaker.threshold, b.threshold), span = coalesce(set_breaker.span, b.span),
        open_for = coalesce(set_breaker.open_for, b.open_for),
        open_cap = greatest(coalesce(set_breaker.open_cap, b.open_cap), coalesce(set_breaker.open_for, b.open_for)),
        probes = coalesce(set_breaker.probes, b.probes), updated_at = wakeful.now(),
        -- One success at least is still to come, or it would be half-open for ever.
        success_count = case when b.state = 'half_open' then least(b.success_count, coalesce(set_breaker.probes, b.probes) - 1)
            else b.success_count end;
end
$$;

-- Says all about a task at once: what is null does not hold any more. rate: so many starts (`rate`) in every `per`, `burst` of them
-- at once. key: 'tenant', or the path to a value in the payload ('account.id'; 'payload.tenant' for a value of that name); null limits the
-- task as a whole.
create function wakeful.set_task_policy(
    task text, breaker text default null, concurrency integer default null, rate double precision default null,
    per interval default '1 second', burst integer default null, key text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if wakeful.say_of_task(task, breaker, concurrency, rate, per, burst, key) then
        perform wakeful.begin_anew(array[task]);
    end if;
end
$$;

-- Writes the policy of a task; true when that changed it.
create function wakeful.say_of_task(
    task text, breaker text, concurrency integer, rate double precision, per interval, burst integer, key text) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    every constant interval := wakeful.check_rate(rate, per, burst);
    keyed_by constant text := case when key = 'tenant' then 'tenant' when key is not null then 'payload' end;
    key_path constant text[] := case when keyed_by = 'payload' then string_to_array(regexp_replace(key, '^payload\.(.)', '\1'), '.') end;
begin
    perform wakeful.check_name('task', task);
    if concurrency <= 0 then
        perform wakeful.refuse('WF003', format('concurrency %s is not positive', concurrency), 'Give 1 or more, or none at all.');
    elsif key is not null and num_nonnulls(concurrency, rate) = 0 then
        perform wakeful.refuse('WF003', 'key is given without concurrency or rate', 'Give one of them, or no key.');
    end if;
    if num_nonnulls(breaker, concurrency, rate) = 0 then
        delete from wakeful.task_policy p where p.task = say_of_task.task;
    else
        if breaker is not null then
            perform wakeful.set_breaker(breaker);
        end if;
        insert into wakeful.task_policy as p (task, breaker, concurrency, every, burst, keyed_by, key_path)
        values (task, breaker, concurrency, every, case when every is not null then coalesce(burst, wakeful.default_burst(every)) end,
            keyed_by, key_path)
        on conflict on constraint task_policy_pkey do update
        set breaker = excluded.breaker, concurrency = excluded.concurrency, every = excluded.every, burst = excluded.burst,
            keyed_by = excluded.keyed_by, key_path = excluded.key_path
            where (p.breaker, p.concurrency, p.every, p.burst, p.keyed_by, p.key_path) is distinct from
                (excluded.breaker, excluded.concurrency, excluded.every, excluded.burst, excluded.keyed_by, excluded.key_path);
    end if;
    return found;
end
$$;

-- Says all about a queue at once: what is null does not hold any more. fair: its tenants take turns, by weights ({tenant: weight}).
create function wakeful.set_queue_policy(
    queue text, concurrency integer default null, rate double precision default null, per interval default '1 second',
    burst integer default null, fair boolean default false, weights jsonb default '{}', ageing interval default null,
    max_pending integer default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    every constant interval := wakeful.check_rate(rate, per, burst);
begin
    perform wakeful.check_name('queue', queue);
    if concurrency <= 0 or max_pending <= 0 or ageing <= interval '0' then
        perform wakeful.refuse('WF003', 'concurrency, max_pending or ageing is not positive', 'Give more than zero, or none at all.');
    elsif ageing > wakeful.longest() then
        perform wakeful.refuse('WF003', format('ageing %s is longer than %s', ageing, wakeful.longest()), 'Give none at all.');
    elsif jsonb_typeof(weights) <> 'object' then
        perform wakeful.refuse('WF003', 'weights is not a JSON object', 'Give an object such as {"acme": 2}.');
    elsif exists (select from jsonb_each(weights) w where jsonb_typeof(w.value) <> 'number' or not (w.value::text)::numeric between 0.001 and 1000) then
        perform wakeful.refuse('WF003', 'a weight is not a number from 0.001 to 1000', 'Give one for each tenant that is not like the others.');
    end if;
    if num_nonnulls(concurrency, rate, ageing, max_pending) = 0 and not coalesce(fair, false) then
        delete from wakeful.queue_policy r where r.queue = set_queue_policy.queue;
    else
        insert into wakeful.queue_policy as r (queue, concurrency, every, burst, fair, weights, ageing, max_pending)
        values (queue, concurrency, every, case when every is not null then coalesce(burst, wakeful.default_burst(every)) end,
            coalesce(fair, false), coalesce(weights, '{}'), ageing, max_pending)
        on conflict on constraint queue_policy_pkey do update
        set concurrency = excluded.concurrency, every = excluded.every, burst = excluded.burst, fair = excluded.fair,
            weights = excluded.weights, ageing = excluded.ageing, max_pending = excluded.max_pending
            where (r.concurrency, r.every, r.burst, r.fair, r.weights, r.ageing, r.max_pending) is distinct from
                (excluded.concurrency, excluded.every, excluded.burst, excluded.fair, excluded.weights, excluded.ageing, excluded.max_pending);
    end if;
    if found then
        perform wakeful.shorten_waits(array[wakeful.queue_gate(queue)], every,
            (select r.burst from wakeful.queue_policy r where r.queue = set_queue_policy.queue));
        insert into wakeful.queue_depth (queue, pending, counted_at) values (queue, 0, '-infinity') on conflict do nothing;
        perform wakeful.give_turns(array(
            select j.id from wakeful.job j
            where fair and j.queue = set_queue_policy.queue and j.state = 1 and j.turn is null for update skip locked));
        perform pg_notify('wakeful', '{"look": true}');
    end if;
end
$$;

-- The time between two starts of a rate.
create function wakeful.check_rate(rate double precision, per interval, burst integer) returns interval
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if rate <= 0 or rate is not null and (per is null or per <= interval '0') or burst <= 0 then
        perform wakeful.refuse('WF003', 'rate, per or burst is not positive', 'Give a rate such as 100 per 1 minute.');
    elsif rate is not null and (per > wakeful.longest()
        or extract(epoch from per)::double precision / rate > extract(epoch from wakeful.longest())::double precision) then
        perform wakeful.refuse('WF003', format('rate and per let one start in more than %s', wakeful.longest()),
            'Give a rate such as 100 per 1 minute.');
    elsif burst is not null and rate is null then
        perform wakeful.refuse('WF003', 'burst is given without a rate', 'Give both, or none.');
    end if;
    return case when rate is not null then greatest(per / rate, interval '1 microsecond') end;
end
$$;

-- As many starts at once as fall into a tenth of a second, so that a high rate is not paid for by as many wake-ups.
create function wakeful.default_burst(every interval) returns integer
    language sql immutable parallel safe
    return greatest(1, floor(0.1 / extract(epoch from every)))::integer;

-- Tasks of which something else is said now: their parked jobs are put back in line, their gates follow the new rate, and everyone looks. All
-- claims that go by the old policy and park jobs are over before it begins, and all jobs come before all gates, as in a claim.
create function wakeful.begin_anew(tasks text[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    changed text;
begin
    foreach changed in array array(select t.task from unnest(begin_anew.tasks) t(task) order by t.task) loop
        perform pg_advisory_xact_lock(hashtextextended('wakeful.keyed ' || changed, 0));
    end loop;
    update wakeful.job j set limit_key = null
    where j.id in (
        select p.id from wakeful.job p join unnest(begin_anew.tasks) t(task) on starts_with(p.limit_key, wakeful.key_gate(t.task, ''))
        where p.limit_key is not null and p.state = 1 order by p.id for update of p);
    delete from wakeful.freed_slot f where f.task = any (begin_anew.tasks);
    delete from wakeful.gate g where g.task = any (begin_anew.tasks) and g.arrives_at is null;
    update wakeful.gate g set wake_at = null where g.task = any (begin_anew.tasks) and g.wake_at is not null;
    perform wakeful.shorten_waits(array(select g.key from wakeful.gate g where g.task = t.task), p.every, p.burst)
    from unnest(begin_anew.tasks) t(task) left join wakeful.task_policy p on p.task = t.task;
    perform pg_notify('wakeful', '{"look": true}');
end
$$;

-- Gates whose rate has changed: nobody waits longer than one who has just used up the new one. No rate: what was paid is forgotten.
create function wakeful.shorten_waits(keys text[], every interval, burst integer) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if shorten_waits.every is null then
        delete from wakeful.gate g where g.key = any (shorten_waits.keys);
    else
        update wakeful.gate g set arrives_at = wakeful.now() + shorten_waits.burst * shorten_waits.every
        where g.key = any (shorten_waits.keys) and g.arrives_at > wakeful.now() + shorten_waits.burst * shorten_waits.every;
    end if;
end
$$;

-- What a worker's code declares: its breakers, and a policy for each task that has one ({name: arguments of set_breaker or
-- set_task_policy}); for the others of its tasks none holds. Queues are told of only where code says something.
create function wakeful.declare_1(tasks text[], breakers jsonb, task_policies jsonb, queue_policies jsonb) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    changed text[];
begin
    -- In the order in which settlements take them; those that only a task tells of are made here too.
    perform wakeful.set_breaker(b.name, (b.said ->> 'threshold')::integer, (b.said ->> 'span')::interval,
        (b.said ->> 'open_for')::interval, (b.said ->> 'open_cap')::interval, (b.said ->> 'probes')::integer)
    from (
        select n.name, breakers -> n.name as said
        from (
            select jsonb_object_keys(breakers) as name
            union
            select p.value ->> 'breaker' from jsonb_each(task_policies) p where p.key = any (tasks)
        ) n
        where n.name is not null order by n.name
    ) b;
    changed := array(
        select t.task
        from (select t.task from unnest(tasks) t(task) order by t.task) t
        cross join lateral (select task_policies -> t.task as said) p
        where (p.said is not null or exists (select from wakeful.task_policy h where h.task = t.task))
          and wakeful.say_of_task(t.task, p.said ->> 'breaker', (p.said ->> 'concurrency')::integer,
            (p.said ->> 'rate')::double precision, (p.said ->> 'per')::interval, (p.said ->> 'burst')::integer, p.said ->> 'key'));
    perform wakeful.begin_anew(changed) where changed <> '{}';
    perform wakeful.set_queue_policy(q.key, (q.value ->> 'concurrency')::integer, (q.value ->> 'rate')::double precision,
        (q.value ->> 'per')::interval, (q.value ->> 'burst')::integer, coalesce((q.value ->> 'fair')::boolean, false),
        coalesce(q.value -> 'weights', '{}'), (q.value ->> 'ageing')::interval, (q.value ->> 'max_pending')::integer)
    from (select q.key, q.value from jsonb_each(queue_policies) q order by q.key) q;
end
$$;

-- ==== 64_import.sql
-- Import: rows of a home-made jobs table become jobs, once each, and go back as long as nothing has begun.
-- Promise: a row of a source, known by its key, makes one job however often it is offered and by however many at once: the
--   ledger's key decides, in the transaction that makes the job. A row that comes with attempts keeps them, and has one
--   start left at least. What cannot be a job fails the call as a whole; the caller halves the set to find it.
-- The rows themselves are read and removed by the caller, under the caller's own rights, in the same transaction.
-- Locks: ledger rows in key order, waiting for an importer that has just taken the same row; as in enqueue_rows; going
--   back locks the ledger against importers, who could join what goes, and jobs, skipping locked ones.

-- What has come from where. `epoch` is the job's at its import: a job that still has it was never started here. `asked` is
-- what it was asked to be, as a digest: a job that has another one was changed since. Null for what made no waiting job.
create table wakeful.imported (
    source      text        not null,
    legacy_key  text        not null,
    job_id      uuid        not null,
    joined      boolean     not null default false,
    epoch       bigint      not null,
    asked       text,
    imported_at timestamptz not null,
    original    jsonb       not null,
    constraint imported_pkey primary key (source, legacy_key)
);

create index imported_job on wakeful.imported (job_id);

-- What an earlier down-migration kept comes back: without it, a second import would double every job.
do $$
begin
    if to_regclass('wakeful_kept.row') is not null then
        insert into wakeful.imported
        select (jsonb_populate_record(null::wakeful.imported, k.row)).* from wakeful_kept.row k where k.kind = 'imported';
    end if;
end
$$;

-- One row of a foreign table in this schema's words; null stands for the default. state: waiting, completed or dead. parent is the
-- key of another row. The job's id and the row's place are given here.
create type wakeful.legacy_row as (
    key text, state text, task text, payload jsonb, queue text, priority integer, run_at timestamptz, attempt integer,
    max_attempts integer, dedup_key text, tenant text, correlation_id uuid, parent text, created_by text, error text,
    error_code text, error_at timestamptz, created_at timestamptz, started_at timestamptz, finished_at timestamptz, result jsonb,
    original jsonb, id uuid, place integer
);

-- A JSON text in a column of text is the value that it says.
create function wakeful.legacy_payload(payload jsonb) returns jsonb
    language sql immutable parallel safe
    return coalesce(case pg_catalog.jsonb_typeof(payload)
        when 'string' then (payload #>> '{}')::jsonb when 'null' then null else payload end, '{}');

-- A digest of what a job is asked to be, which its way through the queue leaves as it is.
create function wakeful.asked_of(job wakeful.job) returns text
    language sql stable parallel safe
    return pg_catalog.md5(pg_catalog.jsonb_build_array((job).queue, (job).payload, (job).metadata, (job).rank, (job).max_attempts,
        extract(epoch from (job).run_at), extract(epoch from (job).expires_at))::text);

-- Takes the rows of a source that the ledger does not have, and returns what became of each: inserted, joined (a live job
-- has its dedup_key), completed, dead, or known (it was imported before).
create function wakeful.import_rows(source text, rows jsonb)
    returns table (legacy_key text, job_id uuid, action text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    offered wakeful.legacy_row[];
    arriving wakeful.legacy_row[];
    keys text[];
begin
    perform wakeful.check_name('source', import_rows.source);
    if jsonb_typeof(import_rows.rows) is distinct from 'array' or jsonb_path_exists(import_rows.rows, 'strict $[*] ? (@.type() != "object")') then
        perform wakeful.refuse('WF003', 'rows is not a JSON array of objects', 'Give an object for each row.');
    end if;
    offered := array(
        select jsonb_populate_record(null::wakeful.legacy_row,
            e.legacy || jsonb_build_object('id', wakeful.new_id(), 'place', e.place))
        from jsonb_array_elements(import_rows.rows) with ordinality e(legacy, place));
    perform wakeful.refuse('WF003', format('row %s has no key, or state %s', coalesce(o.key, '?'), coalesce(o.state, 'null')),
        'Give a key, and a state of waiting, completed or dead.')
    from unnest(offered) o where o.key is null or coalesce(o.state, '') not in ('waiting', 'completed', 'dead') limit 1;
    perform wakeful.refuse('WF003', format('row %s has no task', o.key), 'Give each row a task.')
    from unnest(offered) o where coalesce(o.task, '') = '' limit 1;
    perform wakeful.refuse('WF003', format('row %s has a time that is infinite, or not within the years 1 to 9999', o.key),
        'Give a time that a calendar has, or none.')
    from unnest(offered) o
    where false in (wakeful.in_calendar(o.run_at), wakeful.in_calendar(o.error_at), wakeful.in_calendar(o.created_at),
        wakeful.in_calendar(o.started_at), wakeful.in_calendar(o.finished_at)) limit 1;
    with noted as (
        insert into wakeful.imported (source, legacy_key, job_id, epoch, imported_at, original)
        select import_rows.source, o.key, o.id, coalesce(o.attempt, 0), at, coalesce(o.original, '{}')
        from unnest(offered) o order by o.key
        on conflict do nothing
        returning legacy_key
    )
    select array_agg(n.legacy_key) into keys from noted n;
    arriving := array(select o from unnest(offered) o where o.key = any (keys) order by o.place);
    return query
    select o.key, i.job_id, 'known' from unnest(offered) o
    join wakeful.imported i on i.source = import_rows.source and i.legacy_key = o.key
    where o.key <> all (coalesce(keys, '{}'));
    return query
    select * from wakeful.import_waiting(import_rows.source,
        array(select a from unnest(arriving) a where a.state = 'waiting' order by a.place), at);
    perform wakeful.import_completed(import_rows.source, array(select a from unnest(arriving) a where a.state = 'completed'), at);
    perform wakeful.import_dead(import_rows.source, array(select a from unnest(arriving) a where a.state = 'dead'), at);
    return query select a.key, a.id, a.state from unnest(arriving) a where a.state <> 'waiting';
end
$$;

-- Where a job has come from, in its metadata.
create function wakeful.imported_from(source text, key text) returns jsonb
    language sql immutable parallel safe
    return pg_catalog.jsonb_build_object('imported_from', pg_catalog.jsonb_build_object('source', source, 'key', key));

-- The job that a row's parent has become; null for one that has not come, or comes later.
create function wakeful.imported_parent(source text, legacy wakeful.legacy_row) returns uuid
    language sql stable
    return (select i.job_id from wakeful.imported i where i.source = imported_parent.source and i.legacy_key = (legacy).parent);

-- The history of a row that has failed before; null for one that has not.
create function wakeful.imported_attempts(legacy wakeful.legacy_row, at timestamptz) returns jsonb
    language sql stable
    return case when coalesce((legacy).error, (legacy).error_code) is not null then
        pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object('attempt', coalesce((legacy).attempt, 0),
            'ended_at', coalesce((legacy).error_at, (legacy).finished_at, (legacy).started_at, (legacy).created_at, at),
            'outcome', 'failed', 'code', coalesce((legacy).error_code, 'imported'),
            'message', coalesce((legacy).error, ''))) end;

create function wakeful.import_waiting(source text, legacy wakeful.legacy_row[], at timestamptz)
    returns table (legacy_key text, job_id uuid, action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    made jsonb;
begin
    if legacy = '{}' then
        return;
    end if;
    select jsonb_agg(jsonb_build_object('place', e.place, 'id', e.id, 'action', e.action)) into made
    from wakeful.enqueue_rows(array(
        select jsonb_populate_record(null::wakeful.asked_job, jsonb_build_object('place', l.place, 'id', l.id, 'task', l.task,
            'payload', wakeful.legacy_payload(l.payload), 'queue', l.queue, 'priority', l.priority, 'run_at', l.run_at,
            'max_attempts', case when l.attempt > 0 then greatest(coalesce(l.max_attempts, 5), l.attempt + 1) else l.max_attempts end,
            'dedup_key', l.dedup_key, 'tenant', l.tenant, 'correlation_id', l.correlation_id, 'created_by', l.created_by,
            'metadata', wakeful.imported_from(import_waiting.source, l.key)))
        from unnest(legacy) l order by l.place), true, true) e;
    perform wakeful.refuse('WF005', format('enqueuing of task %s is switched off', l.task), 'Switch it on first.')
    from jsonb_to_recordset(made) m(place integer, action text) join unnest(legacy) l on l.place = m.place
    where m.action = 'off' limit 1;
    update wakeful.imported i set job_id = m.id, joined = true
    from jsonb_to_recordset(made) m(place integer, id uuid, action text) join unnest(legacy) l on l.place = m.place
    where i.source = import_waiting.source and i.legacy_key = l.key and m.id <> l.id;
    update wakeful.job j
    set attempt = coalesce(l.attempt, 0), epoch = coalesce(l.attempt, 0), created_at = least(l.created_at, at),
        -- Only now: a parent may have joined a job that is there.
        parent_id = wakeful.imported_parent(import_waiting.source, l), attempts = wakeful.imported_attempts(l, at)
    from unnest(legacy) l where j.id = l.id;
    update wakeful.imported i set asked = wakeful.asked_of(j)
    from unnest(legacy) l join wakeful.job j on j.id = l.id
    where i.source = import_waiting.source and i.legacy_key = l.key and not i.joined;
    return query
    select l.key, m.id, case when m.id = l.id then 'inserted' else 'joined' end
    from jsonb_to_recordset(made) m(place integer, id uuid) join unnest(legacy) l on l.place = m.place;
end
$$;

create function wakeful.import_completed(source text, legacy wakeful.legacy_row[], at timestamptz) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    with kept as (
        insert into wakeful.finished_job (
            id, queue, task, state, rank, attempt, max_attempts, epoch, run_at, ready_at, started_at, finished_at, created_at,
            correlation_id, parent_id, dedup_key, tenant, created_by, payload, metadata, attempts, result)
        select l.id, coalesce(l.queue, 'default'), l.task, 3, -coalesce(l.priority, 0), coalesce(l.attempt, 0),
            coalesce(l.max_attempts, 5), coalesce(l.attempt, 0), coalesce(l.run_at, l.created_at, at), null, l.started_at,
            least(coalesce(l.finished_at, l.started_at, l.created_at, at), at), least(l.created_at, at),
            coalesce(l.correlation_id, l.id), wakeful.imported_parent(import_completed.source, l), l.dedup_key, l.tenant,
            l.created_by, wakeful.legacy_payload(l.payload),
            wakeful.imported_from(import_completed.source, l.key), wakeful.imported_attempts(l, at), l.result
        from unnest(legacy) l
        returning finished_at, task
    )
    insert into wakeful.tally_delta (day, task, state, jobs)
    select wakeful.day_of(k.finished_at), k.task, 3, count(*) from kept k group by 1, 2;
end;

create function wakeful.import_dead(source text, legacy wakeful.legacy_row[], at timestamptz) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    with kept as (
        insert into wakeful.dead_letter (
            id, task, queue, tenant, correlation_id, error_code, error_message, died_at, original_job)
        select l.id, l.task, coalesce(l.queue, 'default'), l.tenant, coalesce(l.correlation_id, l.id),
            coalesce(l.error_code, 'imported'), coalesce(l.error, ''),
            least(coalesce(l.finished_at, l.error_at, l.started_at, l.created_at, at), at),
            jsonb_strip_nulls(jsonb_build_object('id', l.id, 'queue', coalesce(l.queue, 'default'), 'task', l.task, 'state', 1,
                'rank', -coalesce(l.priority, 0), 'attempt', coalesce(l.attempt, 0), 'max_attempts', coalesce(l.max_attempts, 5),
                'epoch', coalesce(l.attempt, 0), 'crashes', 0, 'shared_crashes', 0, 'suspect', false,
                'run_at', coalesce(l.run_at, l.created_at, at), 'started_at', l.started_at, 'created_at', least(l.created_at, at),
                'updated_at', at, 'correlation_id', coalesce(l.correlation_id, l.id),
                'parent_id', wakeful.imported_parent(import_dead.source, l), 'dedup_key', l.dedup_key,
                'tenant', l.tenant, 'created_by', l.created_by, 'attempts', wakeful.imported_attempts(l, at)))
            -- Apart: what is null inside a payload was told, and stays.
            || jsonb_build_object('payload', wakeful.legacy_payload(l.payload),
                'metadata', wakeful.imported_from(import_dead.source, l.key))
        from unnest(legacy) l
        returning died_at, task
    )
    insert into wakeful.tally_delta (day, task, state, jobs)
    select wakeful.day_of(k.died_at), k.task, 4, count(*) from kept k group by 1, 2;
end;

-- Why a job does not go back to a source, by the row that `made` it; null for one that does: it waits as it was imported.
create function wakeful.kept_because(source text, job wakeful.job, made wakeful.imported) returns text
    language sql stable
    return case
        when (job).id is null then 'started'
        when (made).source is distinct from kept_because.source then 'joined'
        when (job).state = 2 or (job).epoch <> (made).epoch then 'started'
        when exists (select from wakeful.imported o where o.job_id = (job).id and o.source <> kept_because.source) then 'shared'
        when wakeful.asked_of(job) <> (made).asked then 'changed'
    end;

-- Takes back up to `want` jobs of a source that were never started here: each is cancelled, its rows leave the ledger and are
-- returned as they were, for the caller to put them back in the same transaction. What has begun stays, and what was changed
-- since, and what rows of another source have joined. Jobs that come from the keys in `but` are passed over.
create function wakeful.return_rows(source text, want integer, actor text default null, but text[] default '{}')
    returns table (legacy_key text, job_id uuid, original jsonb)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    spared uuid[];
    ids uuid[];
begin
    perform wakeful.check_name('source', return_rows.source);
    if return_rows.want is null or return_rows.want < 0 then
        perform wakeful.refuse('WF003', 'want is missing or negative', 'Give how many rows to take back.');
    end if;
    lock table wakeful.imported in share row exclusive mode;
    spared := array(
        select i.job_id from wakeful.imported i where i.source = return_rows.source and i.legacy_key = any (return_rows.but));
    ids := array(
        select j.id from wakeful.imported i join wakeful.job j on j.id = i.job_id
        where i.source = return_rows.source and not i.joined and j.state < 2 and j.epoch = i.epoch
            and wakeful.kept_because(return_rows.source, j, i) is null and j.id <> all (spared)
        order by j.id limit return_rows.want for update of j skip locked);
    perform wakeful.retire_cancelled(array(
        select row(i.id, 'cancelled', null, 'returned to ' || return_rows.source, null, null, true)::wakeful.ended_attempt
        from unnest(ids) i(id)), at);
    insert into wakeful.audit (at, actor, act, job_id, details)
    select at, coalesce(return_rows.actor, session_user::text), 'return', i.id, jsonb_build_object('source', return_rows.source)
    from unnest(ids) i(id);
    return query
    delete from wakeful.imported i where i.source = return_rows.source and i.job_id = any (ids)
    returning i.legacy_key, i.job_id, i.original;
end
$$;

-- How many rows of a source return_rows leaves here, and why: started (or over), joined (their job is another's, or was here
-- before), shared (rows of another source have joined their job), or changed (what is asked of it is not what was imported).
create function wakeful.kept_rows(source text) returns table (reason text, rows bigint)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
begin atomic
    select k.reason, count(*) from (
        select wakeful.kept_because(kept_rows.source, j, m) as reason
        from wakeful.imported i
        left join wakeful.imported m on m.job_id = i.job_id and not m.joined
        left join wakeful.job j on j.id = i.job_id
        where i.source = kept_rows.source
    ) k where k.reason is not null group by 1 order by 1;
end;

-- ==== 64_schedules.sql
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

-- ==== 70_stats.sql
-- Statistics and clean-up.
-- Promise: stats() is exact at the moment it reads, for live jobs by counting them, for finished and dead ones from the
--   tally. cleanup() removes what it says and keeps the tally true.
-- Locks: stats none; cleanup the rows it deletes, and see drop_days.
create function wakeful.stats(task text default null)
    returns table (scheduled bigint, ready bigint, running bigint, completed bigint, dead bigint, cancelled bigint)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    -- One statement, one snapshot: a job on its way from live to finished is counted once.
    with counted as (
        select j.state, count(*) as jobs from wakeful.job j
        where stats.task is null or j.task = stats.task group by j.state
        union all
        select t.state, sum(t.jobs)::bigint from (
            select a.task, a.state, a.jobs from wakeful.tally a
            union all select d.task, d.state, d.jobs from wakeful.tally_delta d) t
        where stats.task is null or t.task = stats.task group by t.state
    )
    select coalesce(sum(c.jobs) filter (where c.state = 0), 0)::bigint, coalesce(sum(c.jobs) filter (where c.state = 1), 0)::bigint,
        coalesce(sum(c.jobs) filter (where c.state = 2), 0)::bigint, coalesce(sum(c.jobs) filter (where c.state = 3), 0)::bigint,
        coalesce(sum(c.jobs) filter (where c.state = 4), 0)::bigint, coalesce(sum(c.jobs) filter (where c.state = 5), 0)::bigint
    from counted c;
end
$$;

-- Removes up to `most` jobs that are in the given final state (completed, cancelled or dead) since longer than `keep`.
-- A dead letter is removed only once acknowledged. Returns how many; call again until it returns 0.
create function wakeful.cleanup(state text, keep interval, most integer default 10000, actor text default null) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    before constant timestamptz := wakeful.now() - least(cleanup.keep, wakeful.longest());
    removed integer;
begin
    if cleanup.keep is null or cleanup.keep < interval '0' then
        perform wakeful.refuse('WF003', 'keep is missing or negative', 'Give an interval such as 7 days.');
    elsif cleanup.most < 0 then
        perform wakeful.refuse('WF003', 'most is negative', 'Give zero or more.');
    elsif cleanup.state in ('completed', 'cancelled') then
        with gone as (
            delete from wakeful.finished_job f using (
                select o.tableoid, o.ctid, o.finished_at from wakeful.finished_job o
                where o.finished_at < before and wakeful.state_name(o.state) = cleanup.state
                limit most for update skip locked) o
            where f.tableoid = o.tableoid and f.ctid = o.ctid and f.finished_at < before
            returning f.finished_at, f.task, f.state
        ), counted as (
            insert into wakeful.tally_delta (day, task, state, jobs)
            select wakeful.day_of(g.finished_at), g.task, g.state, -count(*) from gone g group by 1, 2, 3
        )
        select count(*) into removed from gone;
    elsif cleanup.state = 'dead' then
        with gone as (
            delete from wakeful.dead_letter d where d.id in (
                select o.id from wakeful.dead_letter o where o.died_at < before and o.acknowledged
                limit most for update skip locked)
            returning d.died_at, d.task
        ), counted as (
            insert into wakeful.tally_delta (day, task, state, jobs)
            select wakeful.day_of(g.died_at), g.task, 4, -count(*) from gone g group by 1, 2
        )
        select count(*) into removed from gone;
    else
        perform wakeful.refuse('WF003', format('state %s is not a final one', coalesce(cleanup.state, 'null')),
            'Use completed, cancelled or dead.');
    end if;
    if removed > 0 then
        perform wakeful.note_act('cleanup', null, cleanup.actor,
            jsonb_build_object('state', cleanup.state, 'keep', cleanup.keep, 'removed', removed));
    end if;
    return removed;
end
$$;

-- ==== 72_metrics.sql
-- Metrics: runs are measured as they are settled, folded, rolled up, and read.
-- Promise: what is read is exact in its counts, deltas that are not folded yet included; percentiles are right to within a
--   tenth. Counts by minute are kept for six hours, by hour for two weeks, by day for 400 days: since then is since the beginning of the
--   minute, hour or day in which it lies.
-- Locks: measuring locks nothing; folding and rolling up take an advisory lock, and whoever does not get it leaves it be.

-- Measures runs that did not simply complete: those take the short way in complete_1.
create function wakeful.measure(runs wakeful.measured_run[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into wakeful.metric_delta (minute, task, outcome, run_bucket, wait_bucket, runs, run_seconds, wait_seconds)
    select date_trunc('minute', measure.at), m.task, m.outcome, wakeful.bucket_of(m.run), wakeful.bucket_of(m.wait),
        count(*), sum(m.run), sum(m.wait)
    from (
        select r.task, r.outcome, greatest(date_part('epoch', measure.at - r.started_at), 0) as run,
            greatest(coalesce(date_part('epoch', r.started_at - r.ready_at), 0), 0) as wait
        from unnest(measure.runs) r) m
    group by 2, 3, 4, 5;
    perform wakeful.meter(array(
        select r from unnest(measure.runs) r where r.tenant is not null or r.counters is not null), measure.at);
end
$$;

-- What tenants used, and what handlers counted.
create function wakeful.meter(runs wakeful.measured_run[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into wakeful.usage_delta (day, tenant, task, outcome, runs, seconds)
    select wakeful.day_of(meter.at), r.tenant, r.task, r.outcome, count(*),
        sum(greatest(date_part('epoch', meter.at - r.started_at), 0))
    from unnest(meter.runs) r where r.tenant is not null group by 2, 3, 4;
    insert into wakeful.counter_delta (day, task, name, number)
    select wakeful.day_of(meter.at), r.task, c.key, sum(c.value::numeric)
    from unnest(meter.runs) r cross join lateral jsonb_each_text(r.counters) c group by 2, 3;
end
$$;

-- Adds to the histograms; returns how many of them. Under the lock of metrics.
create function wakeful.add_bars(bars wakeful.metric_bar[]) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    added integer;
begin
    insert into wakeful.metric as m (grain, at, task, outcome, measure, buckets, runs, seconds)
    select b.grain, b.at, b.task, b.outcome, b.measure, array_agg(b.bucket order by b.bucket),
        array_agg(b.runs order by b.bucket), array_agg(b.seconds order by b.bucket)
    from unnest(add_bars.bars) b group by 1, 2, 3, 4, 5
    on conflict on constraint metric_pkey do update set (buckets, runs, seconds) = (
        select array_agg(b.bucket order by b.bucket), array_agg(b.runs order by b.bucket), array_agg(b.seconds order by b.bucket)
        from (
            select coalesce(o.bucket, n.bucket) as bucket, coalesce(o.runs, 0) + coalesce(n.runs, 0) as runs,
                coalesce(o.seconds, 0) + coalesce(n.seconds, 0) as seconds
            from unnest(m.buckets, m.runs, m.seconds) o(bucket, runs, seconds)
            full join unnest(excluded.buckets, excluded.runs, excluded.seconds) n(bucket, runs, seconds) on n.bucket = o.bucket
        ) b);
    get diagnostics added = row_count;
    return added;
end
$$;

-- Folds the deltas into the sums; returns how many histograms it wrote. Called about once a minute by workers that
-- have run something.
create function wakeful.fold_metrics() returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    folded integer;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('wakeful.metrics', 0)) then
        return 0;
    end if;
    with delta as (
        delete from wakeful.metric_delta d
        returning d.minute, d.task, d.outcome, d.run_bucket, d.wait_bucket, d.runs, d.run_seconds, d.wait_seconds
    ), bar as (
        select d.minute, d.task, d.outcome, s.measure, s.bucket, sum(d.runs)::bigint as runs, sum(s.seconds) as seconds
        from delta d cross join lateral (
            values ('run', d.run_bucket, d.run_seconds), ('wait', d.wait_bucket, d.wait_seconds)) s(measure, bucket, seconds)
        group by 1, 2, 3, 4, 5
    )
    select wakeful.add_bars(array_agg(
        row('minute', b.minute, b.task, b.outcome, b.measure, b.bucket, b.runs, b.seconds)::wakeful.metric_bar))
    into folded from bar b;
    with delta as (
        delete from wakeful.usage_delta d returning d.day, d.tenant, d.task, d.outcome, d.runs, d.seconds
    )
    insert into wakeful.usage as u (day, tenant, task, outcome, runs, seconds)
    select d.day, d.tenant, d.task, d.outcome, sum(d.runs), sum(d.seconds) from delta d group by 1, 2, 3, 4
    on conflict on constraint usage_pkey do update set runs = u.runs + excluded.runs, seconds = u.seconds + excluded.seconds;
    with delta as (
        delete from wakeful.counter_delta d returning d.day, d.task, d.name, d.number
    )
    insert into wakeful.counter as c (day, task, name, number)
    select d.day, d.task, d.name, sum(d.number) from delta d group by 1, 2, 3
    on conflict on constraint counter_pkey do update set number = c.number + excluded.number;
    return folded;
end
$$;

-- Rolls minutes up to hours, hours to days, and forgets days that are too old; returns how many hours and days it wrote.
create function wakeful.roll_metrics() returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set timezone = 'UTC'
as $$
declare
    step record;
    rolled integer := 0;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('wakeful.metrics', 0)) then
        return 0;
    end if;
    for step in
        select * from (values ('minute', 'hour', interval '6 hours'), ('hour', 'day', interval '14 days')) s(fine, coarse, keep)
    loop
        with old as (
            delete from wakeful.metric m
            where m.grain = step.fine and m.at < date_trunc(step.coarse, wakeful.now() - step.keep)
            returning date_trunc(step.coarse, m.at) as at, m.task, m.outcome, m.measure, m.buckets, m.runs, m.seconds
        ), bar as (
            select o.at, o.task, o.outcome, o.measure, b.bucket, sum(b.runs)::bigint as runs, sum(b.seconds) as seconds
            from old o cross join lateral unnest(o.buckets, o.runs, o.seconds) b(bucket, runs, seconds)
            group by 1, 2, 3, 4, 5
        )
        select rolled + wakeful.add_bars(array_agg(
            row(step.coarse, b.at, b.task, b.outcome, b.measure, b.bucket, b.runs, b.seconds)::wakeful.metric_bar))
        into rolled from bar b;
    end loop;
    delete from wakeful.metric m where m.grain = 'day' and m.at < wakeful.now() - interval '400 days';
    delete from wakeful.usage u where u.day < wakeful.day_of(wakeful.now() - interval '400 days');
    delete from wakeful.counter c where c.day < wakeful.day_of(wakeful.now() - interval '400 days');
    return rolled;
end
$$;

-- One row a task that ran since then: its runs by outcome, and the average and percentiles of run and queue time in seconds, of those that
-- were not snoozed, released or cancelled.
create function wakeful.task_metrics(since timestamptz default null, of_task text default null)
    returns table (
        task text, completed bigint, failed bigint, dead bigint, others bigint, average_seconds double precision,
        run_p50 double precision, run_p95 double precision, run_p99 double precision,
        wait_p50 double precision, wait_p95 double precision, wait_p99 double precision)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    with part as (
        select m.task, m.outcome, m.measure, b.bucket, b.runs, b.seconds from wakeful.metric m
        cross join lateral unnest(m.buckets, m.runs, m.seconds) b(bucket, runs, seconds)
        where (task_metrics.since is null or m.at >= date_trunc(m.grain, task_metrics.since, 'UTC'))
          and (task_metrics.of_task is null or m.task = task_metrics.of_task)
        union all
        select d.task, d.outcome, s.measure, s.bucket, d.runs, s.seconds from wakeful.metric_delta d
        cross join lateral (
            values ('run', d.run_bucket, d.run_seconds), ('wait', d.wait_bucket, d.wait_seconds)) s(measure, bucket, seconds)
        where (task_metrics.since is null or d.minute >= date_trunc('minute', task_metrics.since))
          and (task_metrics.of_task is null or d.task = task_metrics.of_task)
    ), bar as (
        select p.task, p.measure, p.bucket,
            sum(sum(p.runs)) over (partition by p.task, p.measure order by p.bucket)
                / sum(sum(p.runs)) over (partition by p.task, p.measure) as share
        from part p where p.outcome in ('completed', 'failed', 'dead') group by p.task, p.measure, p.bucket
    ), percentile as (
        select b.task, b.measure, min(b.bucket) filter (where b.share >= 0.5) as p50,
            min(b.bucket) filter (where b.share >= 0.95) as p95, min(b.bucket) filter (where b.share >= 0.99) as p99
        from bar b group by b.task, b.measure
    ), counted as (
        select p.task, sum(p.runs) filter (where p.outcome = 'completed') as completed,
            sum(p.runs) filter (where p.outcome = 'failed') as failed, sum(p.runs) filter (where p.outcome = 'dead') as dead,
            sum(p.runs) filter (where p.outcome not in ('completed', 'failed', 'dead')) as others,
            sum(p.seconds) filter (where p.outcome in ('completed', 'failed', 'dead'))
                / sum(p.runs) filter (where p.outcome in ('completed', 'failed', 'dead')) as average
        from part p where p.measure = 'run' group by p.task
    )
    select c.task, coalesce(c.completed, 0)::bigint, coalesce(c.failed, 0)::bigint, coalesce(c.dead, 0)::bigint,
        coalesce(c.others, 0)::bigint, c.average, wakeful.seconds_of(r.p50), wakeful.seconds_of(r.p95), wakeful.seconds_of(r.p99),
        wakeful.seconds_of(w.p50), wakeful.seconds_of(w.p95), wakeful.seconds_of(w.p99)
    from counted c
    left join percentile r on r.task = c.task and r.measure = 'run'
    left join percentile w on w.task = c.task and w.measure = 'wait'
    order by c.task;
end
$$;

-- The fleet's totals since then, of one task or of all: runs, seconds, and what handlers counted.
create function wakeful.metrics_summary(since timestamptz default null, task text default null)
    returns table (jobs bigint, succeeded bigint, failed bigint, seconds double precision, counters jsonb)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select coalesce(sum(r.completed + r.failed + r.dead), 0)::bigint, coalesce(sum(r.completed), 0)::bigint,
        coalesce(sum(r.failed + r.dead), 0)::bigint,
        coalesce(sum(coalesce(r.average_seconds, 0) * (r.completed + r.failed + r.dead)), 0), (
            select coalesce(jsonb_object_agg(c.name, c.number), '{}') from (
                select c.name, sum(c.number) as number from (
                    select c.day, c.task, c.name, c.number from wakeful.counter c
                    union all select d.day, d.task, d.name, d.number from wakeful.counter_delta d) c
                where (metrics_summary.task is null or c.task = metrics_summary.task)
                  and (metrics_summary.since is null or c.day >= wakeful.day_of(metrics_summary.since))
                group by c.name) c)
    from wakeful.task_metrics(metrics_summary.since, metrics_summary.task) r;
end
$$;

-- ==== 80_views.sql
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

-- ==== 82_find.sql
-- Finding jobs: a page of those that are meant, the newest ids first.
-- Promise: reads no more of history than it must, and for no longer than it may. Live, finished and dead jobs are walked side by
--   side, each down its index of ids, a portion at a time; a page goes on behind the last id of the page before. Nothing is counted.
-- Parameters: null asks for nothing. error is a code or part of a message; payload is contained in the job's payload;
--   since and before are about the creation, younger and older the same as ages; after is the last id that was shown.
-- Locks: none.

-- The ids of a page. patience: how long to search (null: to the end). `reached` is the id where that ended, null if it did not: all that
-- is newer has been looked at, and who goes on, goes on behind it. Each portion is a snapshot of its own, unless the transaction's is one.
create function wakeful.search_jobs(
    states text[] default null, task text default null, queue text default null, tenant text default null,
    correlation_id uuid default null, error text default null, payload jsonb default null, since timestamptz default null,
    before timestamptz default null, younger interval default null, older interval default null, after uuid default null,
    most integer default 50, patience interval default null)
    returns table (ids uuid[], reached uuid)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_custom_plan
    set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    until constant timestamptz := wakeful.now() + search_jobs.patience;
    numbers constant smallint[] := (
        select array_agg(n::smallint) from generate_series(0, 5) n
        where search_jobs.states is null or wakeful.state_name(n::smallint) = any (search_jobs.states));
    first constant timestamptz := greatest(search_jobs.since, wakeful.now() - search_jobs.younger);
    last constant timestamptz := least(search_jobs.before, wakeful.now() - search_jobs.older);
    -- Of live, finished and dead jobs: the last id that was looked at (null: none yet), and whether no more are left.
    looked uuid[] := array[search_jobs.after, search_jobs.after, search_jobs.after];
    begun boolean[] := array[false, false, false];
    over boolean[] := array[
        not coalesce(numbers && array[0, 1, 2]::smallint[], false), not coalesce(numbers && array[3, 5]::smallint[], false),
        not coalesce(numbers && array[4]::smallint[], false)];
    portions integer[] := array[search_jobs.most, search_jobs.most, search_jobs.most];
    portion integer;
    place integer;
    -- Of a correlation's finished jobs, which an index knows, the next.
    among uuid[];
    walked uuid[];
    met uuid[];
begin
    ids := '{}';
    if search_jobs.most is null or search_jobs.most < 1 then
        return next;
        return;
    end if;
    loop
        -- Whichever lags behind is next: what all have passed is known.
        place := (
            select n from generate_series(1, 3) n where not over[n] order by begun[n], looked[n] desc nulls first, n limit 1);
        exit when place is null;
        if begun[place] then
            exit when (select count(*) from unnest(ids) i where i >= looked[place]) >= search_jobs.most;
            if wakeful.now() >= until then
                reached := looked[place];
                exit;
            end if;
        end if;
        portion := portions[place];
        if place = 1 then
            select array_agg(c.id), array_agg(c.id) filter (where c.state = any (numbers)
              and (search_jobs.task is null or c.task = search_jobs.task)
              and (search_jobs.queue is null or c.queue = search_jobs.queue)
              and (search_jobs.tenant is null or c.tenant = search_jobs.tenant)
              and (search_jobs.correlation_id is null or c.correlation_id = search_jobs.correlation_id)
              and (search_jobs.error is null or wakeful.is_error(wakeful.last_error(c.attempts), search_jobs.error))
              and (search_jobs.payload is null or c.payload @> search_jobs.payload)
              and (first is null or c.created_at >= first) and (last is null or c.created_at < last))
            into walked, met from (
                -- Few run, and an index knows them, however many wait.
                select j.* from wakeful.job j
                where (numbers <> array[2]::smallint[] or j.state = 2) and (looked[1] is null or j.id < looked[1])
                order by j.id desc limit portion) c;
        elsif place = 2 then
            if search_jobs.correlation_id is not null then
                among := array(
                    select u.id from (
                        (select f.id from wakeful.finished_job f
                        where f.correlation_id = search_jobs.correlation_id and f.correlation_id <> f.id
                          and (looked[2] is null or f.id < looked[2]) order by f.id desc limit portion)
                        union all
                        (select f.id from wakeful.finished_job f
                        where f.id = search_jobs.correlation_id and (looked[2] is null or f.id < looked[2]))
                    ) u order by u.id desc limit portion);
            end if;
            select array_agg(c.id), array_agg(c.id) filter (where c.state = any (numbers)
              and (search_jobs.task is null or c.task = search_jobs.task)
              and (search_jobs.queue is null or c.queue = search_jobs.queue)
              and (search_jobs.tenant is null or c.tenant = search_jobs.tenant)
              and (search_jobs.correlation_id is null or c.correlation_id = search_jobs.correlation_id)
              and (search_jobs.error is null or wakeful.is_error(wakeful.last_error(c.attempts), search_jobs.error))
              and (search_jobs.payload is null or c.payload @> search_jobs.payload)
              and (first is null or c.created_at >= first) and (last is null or c.created_at < last))
            into walked, met from (
                -- What was created since then finished since then: whole days need not be read.
                select f.* from wakeful.finished_job f
                where (among is null or f.id = any (among)) and (first is null or f.finished_at >= first)
                  and (looked[2] is null or f.id < looked[2]) order by f.id desc limit portion) c;
            walked := coalesce(among, walked);
        else
            select array_agg(c.id), array_agg(c.id) filter (where (search_jobs.task is null or c.task = search_jobs.task)
              and (search_jobs.queue is null or c.queue = search_jobs.queue)
              and (search_jobs.tenant is null or c.tenant = search_jobs.tenant)
              and (search_jobs.correlation_id is null or c.correlation_id = search_jobs.correlation_id)
              and (search_jobs.error is null or wakeful.is_error(
                jsonb_build_object('code', c.error_code, 'message', c.error_message), search_jobs.error))
              and (search_jobs.payload is null or c.original_job -> 'payload' @> search_jobs.payload)
              and (first is null or (c.original_job ->> 'created_at')::timestamptz >= first)
              and (last is null or (c.original_job ->> 'created_at')::timestamptz < last))
            into walked, met from (
                select d.* from wakeful.dead_letter d where looked[3] is null or d.id < looked[3]
                order by d.id desc limit portion) c;
        end if;
        begun[place] := true;
        over[place] := coalesce(cardinality(walked), 0) < portion;
        looked[place] := coalesce(walked[cardinality(walked)], looked[place]);
        ids := ids || coalesce(met, '{}');
        portions[place] := least(portion * 4, greatest(search_jobs.most, 5000));
    end loop;
    -- A job that was settled meanwhile may have been met twice.
    ids := array(
        select distinct i.id from unnest(ids) i(id) where reached is null or i.id >= reached order by i.id desc
        limit search_jobs.most);
    if cardinality(ids) = search_jobs.most then
        reached := null;
    end if;
    return next;
end
$$;

-- The jobs of a page, however long it takes.
create function wakeful.find_jobs(
    states text[] default null, task text default null, queue text default null, tenant text default null,
    correlation_id uuid default null, error text default null, payload jsonb default null, since timestamptz default null,
    before timestamptz default null, younger interval default null, older interval default null, after uuid default null,
    most integer default 50)
    returns setof wakeful.jobs
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_custom_plan
    set jit = off
as $$
declare
    page constant uuid[] := (
        select s.ids from wakeful.search_jobs(states, task, queue, tenant, correlation_id, error, payload, since, before, younger,
            older, after, most) s);
begin
    return query select v.* from wakeful.jobs v where v.id = any (page) order by v.id desc;
end
$$;

-- Whether an error has this code, or this text in its message, in upper or lower case.
create function wakeful.is_error(entry jsonb, wanted text) returns boolean
    language sql immutable parallel safe
    return entry ->> 'code' = wanted or pg_catalog.strpos(lower(entry ->> 'message'), lower(wanted)) > 0;

-- ==== 83_hindrances.sql
-- Hindrances: breakers that are not closed, and limits that are full, for those who ask why a job waits.
-- Promise: facts as JSON, at the moment of asking; nothing is taken, so the next claim may find it otherwise.
-- Locks: none.

-- All breakers, with since when each is as it is, and when an open one is tried again.
create function wakeful.breakers_told() returns jsonb
    language sql volatile
    set search_path = pg_catalog, pg_temp
    return (
        select coalesce(jsonb_agg(jsonb_build_object('name', b.name, 'state', b.state,
            'since', case b.state when 'open' then b.opened_at when 'half_open' then b.half_opened_at else b.closed_at end,
            'until', b.probe_at) order by b.name), '[]')
        from wakeful.breaker b);

-- The limits that keep a job from starting: `most` run at once, with up to three of those that hold them, or the rate lets the
-- next one start only in `seconds`.
create function wakeful.full_limits(live wakeful.job, at timestamptz) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
begin
    return (
        select coalesce(jsonb_agg(jsonb_build_object('name', l.name, 'most', l.most, 'used', r.used, 'held_by', r.ids, 'seconds',
            case when wakeful.tokens(g.arrives_at, l.every, l.burst, full_limits.at) <= 0
                then wakeful.token_in(g.arrives_at, l.every, l.burst, full_limits.at) end) order by l.name), '[]')
        from (
            select case when p.keyed_by is null then wakeful.task_gate(p.task) else wakeful.key_gate(p.task,
                    case p.keyed_by when 'tenant' then live.tenant else live.payload #>> p.key_path end) end as name,
                p.concurrency as most, p.every, p.burst, false as of_queue
            from wakeful.task_policy p where p.task = live.task
            union all
            select wakeful.queue_gate(q.queue), q.concurrency, q.every, q.burst, true
            from wakeful.queue_policy q where q.queue = live.queue
        ) l
        left join wakeful.gate g on g.key = l.name
        cross join lateral (
            select count(*) as used, (array_agg(j.id))[1:3] as ids from wakeful.job j
            where j.state = 2 and case when l.of_queue then j.queue_slot and j.queue = live.queue else j.limit_key = l.name end
        ) r
        where r.used >= l.most or wakeful.tokens(g.arrives_at, l.every, l.burst, full_limits.at) <= 0);
end
$$;

-- ==== 84_health.sql
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

-- ==== 86_explain.sql
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

-- ==== 88_alerts.sql
-- Alerts: rules that are looked at now and then by one of the fleet; each fires once, and clears once.
-- Promise: of all who call it, one looks in each `every`; the others are told nothing. What it returns has changed in this
--   very transaction: an alert that holds on is told of no more. Rules are JSON, one number each; a rule that is missing is off:
--   depth (ready jobs of a task), age (seconds that a task's oldest ready job waits), failure_rate (share of a task's runs,
--   of twenty or more, since the last look, or in the last five minutes), dead_letters (unseen), no_worker (1: a queue's ready jobs that nobody serves),
--   breaker (1: one that is open), snapshot (seconds that the oldest one is held).
-- Locks: the row of the last look; the alerts' own rows.
-- What is wrong at this moment, by these rules.
create function wakeful.alarms(rules jsonb, since timestamptz)
    returns table (rule text, subject text, number double precision, details jsonb)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    well constant jsonb := wakeful.health();
    held constant jsonb := wakeful.vitals() -> 'oldest_snapshot';
begin
    return query
    select 'depth', d.task, d.ready::double precision, null::jsonb from wakeful.depths() d
    where d.ready > (rules ->> 'depth')::double precision
    union all
    select 'age', d.task, d.oldest_seconds, null from wakeful.depths() d
    where d.oldest_seconds > (rules ->> 'age')::double precision
    union all
    select 'failure_rate', m.task, (m.failed + m.dead)::double precision / (m.completed + m.failed + m.dead), null
    from wakeful.task_metrics(alarms.since) m
    where m.completed + m.failed + m.dead >= 20
      and (m.failed + m.dead)::double precision / (m.completed + m.failed + m.dead) > (rules ->> 'failure_rate')::double precision
    union all
    select 'dead_letters', '', (well ->> 'dead_unacknowledged')::double precision, null
    where (well ->> 'dead_unacknowledged')::double precision > (rules ->> 'dead_letters')::double precision
    union all
    select 'no_worker', o.orphan ->> 'queue', max((o.orphan ->> 'seconds')::double precision),
        jsonb_build_object('tasks', jsonb_agg(o.orphan ->> 'task'))
    from jsonb_array_elements(well -> 'orphans') o(orphan) where rules ? 'no_worker' group by o.orphan ->> 'queue'
    union all
    select 'breaker', b.breaker ->> 'name', 1, b.breaker
    from jsonb_array_elements(coalesce(well -> 'breakers_open', '[]')) b(breaker) where rules ? 'breaker'
    union all
    select 'snapshot', '', (held ->> 'seconds')::double precision, held
    where (held ->> 'seconds')::double precision > (rules ->> 'snapshot')::double precision;
end
$$;

create function wakeful.watch_1(rules jsonb, every interval)
    returns table (rule text, subject text, number double precision, threshold double precision, fired boolean, details jsonb)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    -- A moment is kept as a text.
    set datestyle = 'ISO'
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    looked_at timestamptz;
begin
    select s.value::timestamptz into looked_at from wakeful.setting s where s.name = 'alerts_looked_at';
    insert into wakeful.setting as s (name, value) values ('alerts_looked_at', at::text)
    on conflict on constraint setting_pkey do update set value = excluded.value
    where s.value::timestamptz <= at - watch_1.every;
    if not found then
        return;
    end if;
    return query
    with alarm as materialized (
        select a.* from wakeful.alarms(watch_1.rules,
            greatest(least(looked_at, at - watch_1.every, at - interval '5 minutes'), at - interval '1 hour')) a
    ), over as (
        update wakeful.alert a set cleared_at = at
        where a.cleared_at is null and not exists (select from alarm n where n.rule = a.rule and n.subject = a.subject)
        returning a.rule, a.subject, a.number, a.threshold, a.details
    ), begun as (
        insert into wakeful.alert as a (rule, subject, number, threshold, fired_at, details)
        select n.rule, n.subject, n.number, coalesce((watch_1.rules ->> n.rule)::double precision, 0), at, n.details from alarm n
        on conflict (rule, subject) where cleared_at is null do nothing
        returning a.rule, a.subject, a.number, a.threshold, a.details
    )
    select b.rule, b.subject, b.number, b.threshold, true, b.details from begun b
    union all
    select o.rule, o.subject, o.number, o.threshold, false, o.details from over o;
end
$$;

-- ==== 90_grants.sql
-- Who may call what: every function is revoked from public; each role gets its verbs, and no role may touch a table.
-- Promise: a role that is missing in this cluster is passed over; tests hold every cell of this matrix.
-- Locks: the catalogue's.
revoke all on all functions in schema wakeful from public;

do $$
declare
    entry record;
    grantee text;
begin
    for entry in
        select case p.role
                when 'all' then array['wakeful_producer', 'wakeful_worker', 'wakeful_viewer', 'wakeful_operator']
                when 'producer' then array['wakeful_producer', 'wakeful_worker', 'wakeful_operator']
                when 'worker' then array['wakeful_worker']
                when 'viewer' then array['wakeful_viewer', 'wakeful_operator']
                when 'operator' then array['wakeful_operator']
            end as grantees,
            p.kind || ' wakeful.' || n.name as object, p.privilege
        from (values
            ('all', 'execute', 'function', array['now', 'new_id', 'dedup_key', 'canonical_json', 'state_name', 'last_error', 'backoff']),
            ('producer', 'execute', 'function', array['enqueue', 'enqueue_many', 'enqueue_one_1', 'enqueue_batch_1', 'reach_disk_1', 'enter_breaker_1', 'leave_breaker_1']),
            ('worker', 'execute', 'function', array['claim', 'claim_1', 'claim_poked_1', 'attend_1', 'accept_1', 'claim_any_1', 'wake_1', 'complete', 'complete_1', 'fail', 'settle_1',
                'snooze', 'release', 'extend', 'extend_1', 'register_1', 'declare_1', 'beat_1', 'held_1', 'leave_1', 'pulse_1', 'upkeep_1', 'note_1', 'completed_by_1', 'promote', 'rescue',
                'expire', 'make_days', 'drop_days', 'fold_tally', 'fire_1', 'declare_schedules_1']),
            ('viewer', 'execute', 'function', array['stats', 'find_jobs', 'search_jobs']),
            ('viewer', 'select', 'table', array['imports']),
            ('operator', 'execute', 'function', array['import_rows', 'return_rows', 'kept_rows']),
            ('viewer', 'select', 'table', array['jobs', 'dead_letters', 'queue_health', 'queues', 'workers', 'controls', 'audits', 'schedules', 'breakers', 'policies']),
            ('worker', 'execute', 'function', array['fold_metrics', 'roll_metrics', 'tell_1', 'watch_1', 'health', 'vitals', 'depths']),
            ('viewer', 'execute', 'function', array['health', 'vitals', 'depths', 'explain', 'task_metrics', 'metrics_summary']),
            ('viewer', 'select', 'table', array['job_metrics', 'usages', 'alerts']),
            ('operator', 'execute', 'function', array['cancel', 'cancel_many', 'requeue', 'retry_now', 'bury',
                'acknowledge', 'purge', 'cleanup', 'pause_queue', 'resume_queue', 'pause_task', 'resume_task', 'switch_task',
                'add_schedule', 'change_schedule', 'remove_schedule', 'pause_schedule', 'resume_schedule', 'run_schedule',
                'trip_breaker', 'reset_breaker', 'set_breaker', 'set_task_policy', 'set_queue_policy'])
        ) p(role, privilege, kind, names)
        cross join lateral unnest(p.names) n(name)
    loop
        foreach grantee in array entry.grantees loop
            continue when not exists (select from pg_catalog.pg_roles r where r.rolname = grantee);
            execute pg_catalog.format('grant %s on %s to %I', entry.privilege, entry.object, grantee);
            execute pg_catalog.format('grant usage on schema wakeful to %I', grantee);
        end loop;
    end loop;
end
$$;

-- ==== 95_days.sql
-- The first week of history's partitions.
-- Promise: from here on whoever tends makes the days ahead.
-- Locks: see make_days.
select wakeful.make_days();

-- ==== what an earlier version kept
-- Jobs that an earlier down-migration kept come back. What was running is ready again: nobody holds it any more. No limit
-- holds a job back before it is looked at.
do $$
begin
    if to_regclass('wakeful_kept.row') is null then
        return;
    end if;
    insert into wakeful.job
    select (jsonb_populate_record(null::wakeful.job, k.row || jsonb_build_object('limit_key', null, 'queue_slot', false)
        || case when (k.row ->> 'state')::int <> 2 then '{}'
            else jsonb_build_object('state', 1, 'worker_id', null, 'lease_expires_at', null, 'ready_at', wakeful.now()) end)).*
    from wakeful_kept.row k where k.kind = 'job';
    insert into wakeful.finished_job
    select (jsonb_populate_record(null::wakeful.finished_job, k.row)).* from wakeful_kept.row k where k.kind = 'finished_job';
    insert into wakeful.dead_letter
    select (jsonb_populate_record(null::wakeful.dead_letter, k.row)).* from wakeful_kept.row k where k.kind = 'dead_letter';
    insert into wakeful.tally
    select (jsonb_populate_record(null::wakeful.tally, k.row)).* from wakeful_kept.row k where k.kind = 'tally';
    insert into wakeful.control
    select (jsonb_populate_record(null::wakeful.control, k.row)).* from wakeful_kept.row k where k.kind = 'control';
    insert into wakeful.setting
    select (jsonb_populate_record(null::wakeful.setting, k.row)).* from wakeful_kept.row k where k.kind = 'setting';
    insert into wakeful.schedule
    select (jsonb_populate_record(null::wakeful.schedule, k.row)).* from wakeful_kept.row k where k.kind = 'schedule';
    insert into wakeful.audit (at, actor, act, job_id, details)
    select a.at, a.actor, a.act, a.job_id, a.details
    from wakeful_kept.row k cross join lateral jsonb_populate_record(null::wakeful.audit, k.row) a
    where k.kind = 'audit' order by a.id;
    drop schema wakeful_kept cascade;
end
$$;
