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
