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
