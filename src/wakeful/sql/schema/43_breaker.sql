-- Circuit breakers: what happens to a service is known to the whole fleet.
-- Promise: `threshold` failures within `span` open a breaker; while it is open nothing behind it is started, and nothing is charged.
--   After open_for it is half-open: exactly `probes` are let through at a time, over the whole fleet. As many successes close it, a
--   failure opens it for twice as long, open_cap at most. From a failure to the next success, and from the first start of all to the
--   first success, no more jobs run than failures are left before it opens. A success while it is closed and trusted writes nothing.
-- Locks: the breaker's row, after the jobs that are settled, in the order of names; a claim skips one that someone holds.

-- The breaker's row, locked; made with the defaults if there is none.
create function wakeful.hold_breaker(name text) returns wakeful.breaker
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    held wakeful.breaker;
begin
    loop
        select b.* into held from wakeful.breaker b where b.name = hold_breaker.name for update;
        if found then
            return held;
        end if;
        perform wakeful.check_name('breaker', hold_breaker.name);
        insert into wakeful.breaker (name, updated_at) values (hold_breaker.name, wakeful.now())
        on conflict on constraint breaker_pkey do nothing;
    end loop;
end
$$;

-- Opens a breaker that the caller holds, for `length`.
create function wakeful.open_breaker(name text, length interval, at timestamptz) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    delete from wakeful.probe p where p.breaker = open_breaker.name;
    update wakeful.breaker b
    set state = 'open', open_length = open_breaker.length, opened_at = open_breaker.at, half_opened_at = null,
        probe_at = open_breaker.at + open_breaker.length, success_count = 0, cautious = false, updated_at = open_breaker.at
    where b.name = open_breaker.name;
    -- Whoever minds the clock learns when to come for the probe.
    select pg_catalog.pg_notify('wakeful', '{"look": true}');
end;

-- Closes a breaker that the caller holds, and has everyone look again.
create function wakeful.close_breaker(name text, at timestamptz) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    delete from wakeful.probe p where p.breaker = close_breaker.name;
    update wakeful.breaker b
    set state = 'closed', failures = '{}', cautious = false, open_length = null, probe_at = null, closed_at = close_breaker.at,
        tried_at = coalesce(b.tried_at, close_breaker.at), updated_at = close_breaker.at
    where b.name = close_breaker.name;
    select pg_catalog.pg_notify('wakeful', '{"look": true}');
end;

-- Tells the session whose work moved a breaker, once, as a NOTICE with the facts in DETAIL; our clients make a log line of it.
create function wakeful.tell_of_breaker(code text, message text, facts jsonb) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    -- Whatever the session asks for: nobody else is told.
    set client_min_messages = notice
as $$
begin
    raise notice using errcode = tell_of_breaker.code, message = tell_of_breaker.message, detail = tell_of_breaker.facts::text;
end
$$;

-- Tells one worker of what a person did to a breaker, so that the fleet's log has a line of it, and only one.
create function wakeful.tell_a_worker(facts jsonb) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    select pg_notify(wakeful.channel_of(w.id), jsonb_build_object('breaker', tell_a_worker.facts)::text)
    from (select w.id from wakeful.worker w where w.lease_expires_at > wakeful.now() order by w.beat_at desc, w.id limit 1) w;
end;

-- Notes failures: when each of the attempts had started, and whether one of them was a probe. What started before the breaker
-- was closed last tells nothing of the service as it is since.
create function wakeful.note_failures(name text, starts timestamptz[], probed boolean, at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    held constant wakeful.breaker := wakeful.hold_breaker(name);
    recent timestamptz[];
begin
    if held.state = 'half_open' and probed then
        update wakeful.breaker b set last_failure_at = at where b.name = held.name;
        perform wakeful.open_breaker(held.name, least(held.open_length * 2, held.open_cap), at);
        perform wakeful.tell_of_breaker('WF101', format('breaker %s is open again: its probe failed', held.name),
            jsonb_build_object('breaker', held.name, 'from', held.state,
                'open_seconds', extract(epoch from least(held.open_length * 2, held.open_cap))));
    elsif held.state = 'closed' then
        recent := array(
            select f.at from (
                select f.at from unnest(held.failures) f(at) where f.at > note_failures.at - held.span
                union all
                select note_failures.at from unnest(starts) s(at) where s.at >= coalesce(held.closed_at, '-infinity')
            ) f order by f.at desc limit held.threshold);
        if recent = '{}' then
            return;
        end if;
        update wakeful.breaker b
        set failures = recent, cautious = true, success_count = 0, last_failure_at = at, updated_at = at where b.name = held.name;
        if cardinality(recent) >= held.threshold then
            perform wakeful.open_breaker(held.name, held.open_for, at);
            perform wakeful.tell_of_breaker('WF101', format('breaker %s is open: %s failures within %s', held.name,
                cardinality(recent), held.span), jsonb_build_object('breaker', held.name, 'from', held.state,
                'open_seconds', extract(epoch from held.open_for), 'failures', cardinality(recent)));
        end if;
    else
        update wakeful.breaker b set last_failure_at = at where b.name = held.name;
    end if;
end
$$;

-- Notes successes: when the newest of the attempts had started, and how many were probes.
create function wakeful.note_successes(name text, newest timestamptz, probed integer, at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    held constant wakeful.breaker := wakeful.hold_breaker(name);
begin
    if held.state = 'half_open' and probed > 0 then
        update wakeful.breaker b set success_count = held.success_count + probed, updated_at = at where b.name = held.name;
        if held.success_count + probed >= held.probes then
            perform wakeful.close_breaker(held.name, at);
            perform wakeful.tell_of_breaker('WF102', format('breaker %s is closed', held.name), jsonb_build_object(
                'breaker', held.name, 'from', held.state, 'was_open_seconds', extract(epoch from at - held.opened_at)));
        end if;
    elsif held.state = 'closed' and held.cautious and newest >= coalesce(held.last_failure_at, '-infinity') then
        -- The first of all changes nothing that is shown.
        update wakeful.breaker b
        set cautious = false, success_count = case when held.last_failure_at is null then b.success_count else 1 end,
            updated_at = case when held.last_failure_at is null then b.updated_at else at end
        where b.name = held.name;
        perform pg_notify('wakeful', '{"look": true}');
    end if;
end
$$;

-- Tells the breakers that are attentive of completed jobs, in the transaction that completed them.
create function wakeful.breakers_hear_of(done uuid[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    told record;
begin
    for told in
        select p.breaker, max(f.started_at) as newest,
            count(*) filter (where exists (
                select from wakeful.probe b where b.breaker = p.breaker and b.holder = f.id and b.epoch = f.epoch)) as probed
        from wakeful.finished_job f
        join wakeful.task_policy p on p.task = f.task
        -- Of several breakers one may be attentive, and the row of another one is not to be waited for.
        join wakeful.breaker b on b.name = p.breaker and b.attentive
        where f.id = any (done) and f.finished_at = breakers_hear_of.at and p.breaker is not null
        group by p.breaker order by p.breaker
    loop
        perform wakeful.note_successes(told.breaker, told.newest, told.probed::integer, at);
    end loop;
end
$$;

-- Tells the breakers of running jobs that have failed, whose rows the caller has locked.
create function wakeful.breakers_hear_of_failed(failed uuid[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    told record;
begin
    for told in
        select p.breaker, array_agg(j.started_at) as starts,
            bool_or(exists (
                select from wakeful.probe b where b.breaker = p.breaker and b.holder = j.id and b.epoch = j.epoch)) as probed
        from wakeful.job j
        join wakeful.task_policy p on p.task = j.task
        where j.id = any (failed) and p.breaker is not null
        group by p.breaker order by p.breaker
    loop
        perform wakeful.note_failures(told.breaker, told.starts, told.probed, at);
    end loop;
end
$$;

-- How many have been let through a half-open breaker and are not back. Asked for in a later statement than the lock.
create function wakeful.probes_under_way(breaker text, at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    return (
        select count(*) from wakeful.probe p
        left join lateral (
            select j.id from wakeful.job j where j.id = p.holder and j.epoch = p.epoch and j.state + 0 = 2 limit 1) j on true
        where p.breaker = probes_under_way.breaker and (p.until > at or j.id is not null));
end
$$;

-- How many more jobs of its tasks may start now: null for any number. The breaker is locked by the caller; one whose time has
-- come becomes half-open.
create function wakeful.room_behind(held wakeful.breaker, at timestamptz) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    if held.state = 'open' then
        if held.probe_at > at then
            return 0;
        end if;
        update wakeful.breaker b set state = 'half_open', half_opened_at = at, probe_at = null, success_count = 0, updated_at = at
        where b.name = held.name;
        return held.probes;
    elsif held.state = 'half_open' then
        return greatest(0, held.probes - held.success_count - wakeful.probes_under_way(held.name, at));
    elsif held.tried_at is null or held.cautious and greatest(held.last_failure_at, held.tried_at) > at - held.span then
        return greatest(0, held.threshold - (select count(*) from unnest(held.failures) f(at) where f.at > room_behind.at - held.span)
            - (select count(*) from wakeful.job j join wakeful.task_policy p on p.task = j.task
                where j.state = 2 and p.breaker = held.name));
    end if;
    return null;
end
$$;

-- Jobs behind these breakers start, which the caller has locked unless they have been tried before.
create function wakeful.try_breakers(names text[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    update wakeful.breaker b set tried_at = try_breakers.at, cautious = true
    where b.name = any (names) and b.tried_at is null and b.state = 'closed';
end
$$;

-- For a call inside a handler, or outside of any job: whether it may be made. `holder` and `epoch` are the running job's (epoch null:
-- a caller of its own, who will be back within `patience`). wait: how many seconds until it is worth asking again; null when the
-- call may be made. listens: whether a success has to be told. `policy` is how a breaker judges that nobody has declared so far (arguments
-- of set_breaker); what is there already stays as it is.
create function wakeful.enter_breaker_1(
    name text, holder uuid, epoch bigint default null, patience interval default '1 minute', policy jsonb default null)
    returns table (wait double precision, listens boolean, probing boolean)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    at constant timestamptz := wakeful.now();
    held wakeful.breaker;
begin
    probing := false;
    select b.* into held from wakeful.breaker b where b.name = enter_breaker_1.name;
    if not found and policy is not null then
        perform wakeful.set_breaker(name, (policy ->> 'threshold')::integer, (policy ->> 'span')::interval,
            (policy ->> 'open_for')::interval, (policy ->> 'open_cap')::interval, (policy ->> 'probes')::integer);
    end if;
    listens := coalesce(held.attentive, false);
    if not listens or held.state = 'closed' then
        return next;
        return;
    elsif held.state = 'open' and held.probe_at > at then
        wait := extract(epoch from held.probe_at - at);
        return next;
        return;
    end if;
    held := wakeful.hold_breaker(name);
    if held.state <> 'closed' and wakeful.room_behind(held, at) > 0 then
        insert into wakeful.probe as p (breaker, holder, epoch, until)
        values (name, holder, epoch, case when epoch is null then at + patience end)
        on conflict on constraint probe_pkey do update set epoch = excluded.epoch, until = excluded.until;
        probing := true;
    elsif held.state <> 'closed' then
        -- The one that was let through decides: most are back within a second.
        wait := greatest(1, extract(epoch from held.probe_at - at));
    end if;
    return next;
end
$$;

-- Tells a breaker how such a call went. A success needs to be told only by one who was asked to.
create function wakeful.leave_breaker_1(
    name text, holder uuid, succeeded boolean, started_ago interval, probing boolean default false) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    at constant timestamptz := wakeful.now();
    probed boolean := false;
begin
    if probing or succeeded is null then
        -- It is back, and the next may try. One that was let through before the breaker opened again is no probe any more.
        perform wakeful.hold_breaker(name);
        delete from wakeful.probe p where p.breaker = leave_breaker_1.name and p.holder = leave_breaker_1.holder;
        probed := found and probing;
    end if;
    if succeeded then
        perform wakeful.note_successes(name, at - started_ago, probed::integer, at);
    elsif not succeeded then
        perform wakeful.note_failures(name, array[at - started_ago], probed, at);
    end if;
end
$$;

-- Opens a breaker by hand, for its open_for or for `length`; probes follow as always.
create function wakeful.trip_breaker(name text, length interval default null, actor text default null, reason text default null)
    returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    held wakeful.breaker;
begin
    if trip_breaker.length <= interval '0' or trip_breaker.length > wakeful.longest() then
        perform wakeful.refuse('WF003', format('length %s is not positive, or longer than %s', trip_breaker.length, wakeful.longest()),
            'Give one such as 10 minutes.');
    end if;
    held := wakeful.hold_breaker(trip_breaker.name);
    perform wakeful.open_breaker(held.name, coalesce(trip_breaker.length, held.open_for), wakeful.now());
    if held.state <> 'open' then
        perform wakeful.tell_a_worker(jsonb_build_object('breaker', held.name, 'to', 'open', 'from', held.state,
            'open_seconds', extract(epoch from coalesce(trip_breaker.length, held.open_for)),
            'by', coalesce(trip_breaker.actor, session_user::text)));
    end if;
    perform wakeful.note_act('trip', null, trip_breaker.actor,
        jsonb_build_object('breaker', held.name, 'from', held.state, 'reason', trip_breaker.reason));
end
$$;

-- Closes a breaker by hand; who waits behind it starts at once.
create function wakeful.reset_breaker(name text, actor text default null, reason text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    held wakeful.breaker;
begin
    select b.* into held from wakeful.breaker b where b.name = reset_breaker.name for update;
    if not found then
        perform wakeful.refuse('WF004', format('no breaker is called %s', reset_breaker.name),
            'List them with: wakeful breakers list.', jsonb_build_object('breaker', reset_breaker.name));
    end if;
    perform wakeful.close_breaker(held.name, wakeful.now());
    if held.state <> 'closed' then
        perform wakeful.tell_a_worker(jsonb_build_object('breaker', held.name, 'to', 'closed', 'from', held.state,
            'was_open_seconds', extract(epoch from wakeful.now() - held.opened_at),
            'by', coalesce(reset_breaker.actor, session_user::text)));
    end if;
    perform wakeful.note_act('reset', null, reset_breaker.actor,
        jsonb_build_object('breaker', held.name, 'from', held.state, 'reason', reset_breaker.reason));
end
$$;
