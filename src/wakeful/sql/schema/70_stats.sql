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
