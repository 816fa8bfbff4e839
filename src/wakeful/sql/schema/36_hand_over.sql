-- Handing over: a job that is enqueued while a worker sleeps begins as that worker's, in the very commit that makes it.
-- Promise: as in a claim: the attempt is counted, the epoch raised, and worker and job are on disk before the worker hears of it. Until the worker
--   confirms (accept_1) the job has a lease of its own, of five seconds: a worker that has just died, or stands still, keeps it no longer than
--   that. Nobody can tell then whether it was started, so that attempt counts, and a job with one attempt only is not handed over.
--   A worker has at most one job that it has not confirmed, and sends the confirmation before it starts the handler.
-- Format: a JSON array of texts, as told_of writes it. Whoever may connect may listen and notify: so this goes by a channel whose name
--   is a secret of the worker's, kept in a table that no role may read, and never part of a statement's text.
-- Locks: two advisory locks a worker. Its listener's session shares one for as long as it lives, whoever hands over holds the other to the end
--   of its transaction. accept_1: a key share on the worker's row, then the job's, unless someone holds it.
create function wakeful.handed_lease() returns interval
    language sql immutable parallel safe
    return interval '5 seconds';

create function wakeful.ear_lock(worker_id uuid) returns bigint
    language sql immutable parallel safe
    return hashtextextended(worker_id::text, 1);

-- What a listener's session calls, once: it listens on the channel on which jobs are handed over, and as long as it lives, it shows that somebody is
-- there to hear.
create function wakeful.attend_1(worker_id uuid, channel text) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_advisory_lock_shared(wakeful.ear_lock(worker_id));
    execute format('listen %I', channel);
end
$$;

-- Whether the worker's listener lives, and nobody else is handing it a job; from here to the end of the transaction nobody does. (This and the
-- next in language sql: they become part of what calls them.)
create function wakeful.begins_to_hand(worker_id uuid) returns boolean
    language sql volatile
    return not (pg_try_advisory_lock(wakeful.ear_lock(worker_id)) and pg_advisory_unlock(wakeful.ear_lock(worker_id)))
        and pg_try_advisory_xact_lock(hashtextextended(worker_id::text, 2));

-- What a worker is told of a job.
create function wakeful.told_of(
    id uuid, task text, queue text, payload jsonb, max_attempts integer, rank smallint, at timestamptz, correlation_id uuid, parent_id uuid, tenant text,
    created_by text, metadata jsonb) returns text
    language sql immutable
    return array_to_json(array[id::text, task, queue, payload::text, max_attempts::text, rank::text, encode(timestamptz_send(at), 'hex'),
        correlation_id::text, parent_id::text, tenant, created_by, metadata::text])::text;

-- Confirms jobs that were handed to the worker: its own lease covers them from now on. `enough`: hand it no more until it says so. Returns a row for
-- each that is not the worker's any more (stale, settled), or that someone holds just now (locked): those are to be confirmed again.
create function wakeful.accept_1(worker_id uuid, ids uuid[], epochs bigint[], enough boolean) returns table (id uuid, refused text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    passed uuid[];
begin
    perform wakeful.hold_worker(worker_id);
    passed := array(
        select j.id from wakeful.job j join unnest(ids, epochs) s(id, epoch) on s.id = j.id and s.epoch = j.epoch
        where j.id = any (ids) and j.worker_id = accept_1.worker_id and j.state + 0 = 2 order by j.id for update of j skip locked);
    -- A lease that its task has given it meanwhile stays.
    update wakeful.job j set lease_expires_at = null
    where j.id = any (passed) and j.lease_expires_at = j.started_at + wakeful.handed_lease();
    if enough then
        update wakeful.sleeper s set takes = null where s.worker_id = accept_1.worker_id and s.takes is not null;
    end if;
    if cardinality(passed) < cardinality(ids) then
        return query
        select r.id, case when exists (
            select from wakeful.job j join unnest(ids, epochs) s(id, epoch) on s.id = j.id and s.epoch = j.epoch
            where j.id = r.id and j.worker_id = accept_1.worker_id and j.state + 0 = 2) then 'locked' else r.refused end
        from wakeful.refusals(accept_1.worker_id, ids, epochs, passed) r;
    end if;
end
$$;
