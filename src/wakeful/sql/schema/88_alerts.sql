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
