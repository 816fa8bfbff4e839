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
