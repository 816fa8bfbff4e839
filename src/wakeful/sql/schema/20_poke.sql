-- The poke: a hint on channel `wakeful` that a job became runnable, or will, sooner than sleepers know.
-- Format (JSON): {"q": queue, "in": milliseconds until due, "at": [rank, ready_at in microseconds since 1970, id]}
--   "at" is the least position in line that the sender added, and is absent for a job that is due later.
--   {"cancel": worker_id} asks one worker to look for cancelled jobs; {"canary": worker_id} goes to one listener;
--   {"look": true} asks everyone to look again (something was resumed).
-- Promise: sent when the transaction commits, and only if a worker that serves the queue sleeps. A transaction
--   that sees an old snapshot (repeatable read, serializable) cannot know who sleeps, and always sends.
-- Locks: none; NOTIFY takes PostgreSQL's own commit lock, which is why nobody is poked while all are busy.
create function wakeful.somebody_sleeps(queue text) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- A serializable reader of `sleeper` would conflict with every worker that goes to sleep.
    if current_setting('transaction_isolation') <> 'read committed' then
        return true;
    end if;
    return exists (
        select from wakeful.sleeper s where s.queues is null or somebody_sleeps.queue = any (s.queues));
end
$$;

create function wakeful.poke(queue text, due_at timestamptz, rank smallint, ready_at timestamptz, id uuid) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not wakeful.somebody_sleeps(poke.queue) then
        return;
    end if;
    if poke.ready_at is null then
        perform pg_notify('wakeful', json_build_object(
            'q', poke.queue,
            'in', greatest(0, ceil(extract(epoch from poke.due_at - wakeful.now()) * 1000))::bigint)::text);
    else
        perform pg_notify('wakeful', json_build_object(
            'q', poke.queue, 'in', 0,
            'at', json_build_array(poke.rank, (extract(epoch from poke.ready_at) * 1000000)::bigint, poke.id))::text);
    end if;
end
$$;

create function wakeful.poke_at_commit() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform wakeful.poke(new.queue, new.run_at, new.rank, new.ready_at, new.id);
    return null;
end
$$;

-- Deferred, so that who sleeps is looked up as late as can be.
create constraint trigger job_pokes_at_commit
    after insert on wakeful.job
    deferrable initially deferred
    for each row when (new.pokes)
    execute function wakeful.poke_at_commit();

-- Whether this row must speak for itself, because no earlier one of its transaction has said as much for its queue:
-- a ready job of the same or a better rank, or (for a job due later) one due no later, or any ready one, after which
-- sleepers ask what is due next. Kept in a transaction-local setting, which a rolled-back savepoint takes back.
create function wakeful.speaks_first(queue text, rank smallint, due_at timestamptz) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    spoken jsonb := nullif(current_setting('wakeful.spoken', true), '')::jsonb;
    known jsonb := coalesce(spoken -> speaks_first.queue, '{}');
    due double precision := extract(epoch from speaks_first.due_at);
begin
    if due is null and (known ->> 'rank')::int <= speaks_first.rank
       or due is not null and (known ? 'rank' or (known ->> 'due')::double precision <= due) then
        return false;
    end if;
    known := known || case when due is null
        then jsonb_build_object('rank', speaks_first.rank) else jsonb_build_object('due', due) end;
    perform set_config('wakeful.spoken',
        (coalesce(spoken, '{}') || jsonb_build_object(speaks_first.queue, known))::text, true);
    return true;
end
$$;
