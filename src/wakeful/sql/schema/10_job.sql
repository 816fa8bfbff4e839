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
