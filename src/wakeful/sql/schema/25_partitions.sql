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
