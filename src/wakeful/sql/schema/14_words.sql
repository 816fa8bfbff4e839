-- The words for states, and the one way this schema refuses.
-- Promise: pure functions; refuse() always raises, with a SQLSTATE of ours, a message, what to do (hint), and
--   data as JSON in the detail.
-- Locks: none.
create function wakeful.state_name(state smallint) returns text
    language sql immutable parallel safe strict
    return case state
        when 0 then 'scheduled' when 1 then 'ready' when 2 then 'running'
        when 3 then 'completed' when 4 then 'dead' when 5 then 'cancelled' end;

-- SQLSTATEs: WF001 stale claim, WF002 duplicate, WF003 invalid option, WF004 not found, WF005 refused in this state,
-- WF006 worker's lease lapsed, WF007 schema mismatch, WF008 queue full.
create function wakeful.refuse(code text, message text, hint text, detail jsonb default null) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using errcode = code, message = message, hint = hint, detail = coalesce(detail::text, '');
end
$$;

-- Refuses what has no name.
create function wakeful.check_name(kind text, name text) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(name, '') = '' then
        perform wakeful.refuse('WF003', format('the %s has no name', kind), 'Name it.');
    end if;
end
$$;

-- Refuses a lease that has lapsed when it begins, or would never lapse.
create function wakeful.check_lease(lease interval) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if lease is null or lease <= interval '0' or lease > wakeful.longest() then
        perform wakeful.refuse('WF003', format('lease %s is not positive, or longer than %s', coalesce(lease::text, 'null'), wakeful.longest()),
            'Give a lease such as 5 minutes.');
    end if;
end
$$;

-- The wait before the next start after `attempt` starts, for callers that name none: 1 s, doubling, at most 300 s,
-- spread by a tenth.
create function wakeful.backoff(attempt integer) returns interval
    language sql volatile parallel safe
    return pg_catalog.make_interval(secs => least(300.0,
        power(2.0, least(greatest(attempt, 1), 20) - 1) * (1 + 0.1 * (2 * pg_catalog.random() - 1))));

-- Appends one attempt to a job's history. The newest hundred are kept: a job may be snoozed for years.
create function wakeful.with_attempt(attempts jsonb, entry jsonb) returns jsonb
    language sql immutable parallel safe
    return case
        when attempts is null then pg_catalog.jsonb_build_array(entry)
        when pg_catalog.jsonb_array_length(attempts) < 100 then attempts || entry
        else (attempts - 0) || entry end;

-- The newest attempt in a history that ended in an error; null for none.
create function wakeful.last_error(attempts jsonb) returns jsonb
    language sql immutable parallel safe
    return (select a.entry from pg_catalog.jsonb_array_elements(attempts) with ordinality a(entry, place)
        where a.entry ? 'code' order by a.place desc limit 1);

-- Two sets of counters, {name: number}, as one.
create function wakeful.added_up(counters jsonb, more jsonb) returns jsonb
    language sql immutable parallel safe
    return (
        select pg_catalog.jsonb_object_agg(c.name, c.number) from (
            select e.key as name, sum(e.value::numeric) as number
            from (select * from pg_catalog.jsonb_each_text(coalesce(counters, '{}'))
                union all select * from pg_catalog.jsonb_each_text(more)) e
            group by e.key) c);
