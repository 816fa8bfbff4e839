-- The poke: a hint to sleepers that a job became runnable, or will, sooner than they know.
-- Channels: every worker listens on `wakeful` and on its own, `wakeful_` and its id in hex. A poke goes to two sleepers
--   that serve the queue and have the task, chosen at random: one would do, the second is there in case the first has just died. Who finds
--   more than it can take pokes the next two. So one job never wakes a fleet.
-- Format (JSON): {"q": queue, "in": milliseconds until due, "at": [rank, ready_at in microseconds since 1970, id]}
--   "at" is the least position in line that the sender added; it is absent for a job that is due later, and where the
--   sender knows only that there is more.
--   A job is handed over on a channel that only its worker knows of: see 36_hand_over.sql.
--   {"look": true} asks to look again (something was resumed); {"cancel": true} asks a worker to look for jobs of its own
--   that were cancelled; {"canary": number} tells a worker that its listener hears.
-- Promise: sent when the transaction commits, and only if a worker sleeps that serves it. A transaction that sees
--   an old snapshot (repeatable read, serializable) cannot know who sleeps, and pokes everyone.
-- Locks: an advisory lock, shared, from the look at who sleeps to the end of the transaction; NOTIFY takes PostgreSQL's own
--   commit lock, which is why nobody is poked while all are busy.
create function wakeful.channel_of(worker_id uuid) returns text
    language sql immutable parallel safe strict
    return 'wakeful_' || pg_catalog.replace(worker_id::text, '-', '');

-- Whether a poke about this queue and task is for a sleeper. Volatile, as the clock is, or it could not be inlined.
create function wakeful.hears_of(sleeper wakeful.sleeper, queue text, task text) returns boolean
    language sql volatile
    return (sleeper.queues is null or queue = any (sleeper.queues)) and (sleeper.tasks is null or task = any (sleeper.tasks))
        and (sleeper.until is null or sleeper.until > wakeful.now());

-- Whether a poke could be for anyone at all. Nearly always nobody sleeps, and this is all that a poke costs.
create function wakeful.someone_hears() returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- A serializable reader of `sleeper` would conflict with every worker that goes to sleep.
    if current_setting('transaction_isolation') <> 'read committed' then
        return true;
    end if;
    -- Taken before the look: see nobody_is_between.
    perform pg_advisory_xact_lock_shared(hashtextextended('wakeful.poke', 0));
    return exists (select from wakeful.sleeper);
end
$$;

-- Tells these of a job; null: everyone.
create function wakeful.poke_these(
    sleepers uuid[], queue text, due_at timestamptz, rank smallint, ready_at timestamptz, id uuid) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    hint constant text := case when poke_these.ready_at is null
        then json_build_object('q', poke_these.queue,
            'in', greatest(0, ceil(extract(epoch from poke_these.due_at - wakeful.now()) * 1000))::bigint)
        else json_build_object('q', poke_these.queue, 'in', 0, 'at', json_build_array(
            poke_these.rank, (extract(epoch from poke_these.ready_at) * 1000000)::bigint, poke_these.id)) end::text;
begin
    perform pg_notify('wakeful', hint) where sleepers is null;
    perform pg_notify(wakeful.channel_of(s.worker_id), hint) from unnest(sleepers) s(worker_id);
end
$$;

-- Pokes, if someone hears; whether it did.
create function wakeful.poke(
    queue text, task text, due_at timestamptz, rank smallint, ready_at timestamptz, id uuid) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    sleepers uuid[];
begin
    if not wakeful.someone_hears() then
        return false;
    elsif current_setting('transaction_isolation') = 'read committed' then
        -- Sorted first: whom chance means is not to hang on where the rows lie.
        sleepers := array(
            select w.worker_id from (
                select s.worker_id from wakeful.sleeper s where wakeful.hears_of(s, poke.queue, poke.task) order by s.worker_id) w
            order by random() limit 2);
        if sleepers = '{}' then
            return false;
        end if;
    end if;
    perform wakeful.poke_these(sleepers, poke.queue, poke.due_at, poke.rank, poke.ready_at, poke.id);
    return true;
end
$$;

-- Whether no transaction is between its look at who sleeps and its end. A worker that has declared itself asleep since, and
-- then finds nobody in between and nothing in line, misses nothing: who looks from now on sees it asleep, and the rows of
-- those who looked before are there to be seen.
create function wakeful.nobody_is_between() returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    between_locks constant bigint := hashtextextended('wakeful.poke', 0);
begin
    -- Given back at once, or pokes would wait for it.
    return pg_try_advisory_lock(between_locks) and pg_advisory_unlock(between_locks);
end
$$;

create function wakeful.poke_at_commit() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    perform wakeful.poke(new.queue, new.task, new.run_at, new.rank, new.ready_at, new.id);
    return null;
end
$$;

-- Deferred, so that who sleeps is looked up as late as can be, however long the transaction goes on.
create constraint trigger job_pokes_at_commit
    after insert on wakeful.job
    deferrable initially deferred
    for each row when (new.pokes)
    execute function wakeful.poke_at_commit();

-- Whether this row must speak for itself, because no earlier one of its transaction has said as much for its queue and task:
-- a ready job of the same or a better rank, or (for a job due later) one due no later, or any ready one, after which
-- sleepers ask what is due next. Kept in a transaction-local setting, which a rolled-back savepoint takes back.
create function wakeful.speaks_first(queue text, task text, rank smallint, due_at timestamptz) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    spoken constant jsonb := coalesce(nullif(current_setting('wakeful.spoken', true), ''), '{}');
    topic constant text := jsonb_build_array(speaks_first.queue, speaks_first.task)::text;
    known constant jsonb := coalesce(spoken -> topic, '{}');
    due constant double precision := extract(epoch from speaks_first.due_at);
begin
    if due is null and (known ->> 'rank')::int <= speaks_first.rank
       or due is not null and (known ? 'rank' or (known ->> 'due')::double precision <= due) then
        return false;
    end if;
    return set_config('wakeful.spoken', (spoken || jsonb_build_object(topic, known || case when due is null
        then jsonb_build_object('rank', speaks_first.rank) else jsonb_build_object('due', due) end))::text, true) is not null;
end
$$;
