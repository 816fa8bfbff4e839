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
