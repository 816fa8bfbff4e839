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
