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
