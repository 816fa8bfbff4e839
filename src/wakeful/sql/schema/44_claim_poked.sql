-- The claim of a worker that a poke has woken: the job that the poke names, found by its id.
-- Promise: as in claim_1, for which it is the short way. An idle worker is nearly always poked for one plain job, and takes it by one
--   statement. A job that is gone, held by someone, or special in any way is left to claim_1.
-- Locks: the job's row, unless someone holds it, then a key share on the worker's own row.

-- Takes the job `id`, if it is in line and nothing is said of its task or its queue; else what a brief claim_1 takes. The worker has at
-- least two free slots in every lane (one that is filled by this might have to pass the poke on), and claims again afterwards, for whatever
-- else there is. Returns as claim_1 does; no report with the job that was named.
create function wakeful.claim_poked_1(
    worker_id uuid, id uuid, queues text[], lanes integer[], limits integer[], tasks text[], sleeps text default null,
    pass_on boolean default false, free integer[] default null)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    update wakeful.job j
    set state = 2, attempt = j.attempt + 1, epoch = j.epoch + 1, worker_id = claim_poked_1.worker_id, started_at = t.at, updated_at = t.at
    from (
        select c.ctid as tid, c.expires_at from wakeful.job c
        where c.id = claim_poked_1.id and c.state + 0 = 1 and c.limit_key is null and not c.suspect
          and c.queue = any (claim_poked_1.queues) and c.task = any (claim_poked_1.tasks)
          and not exists (select from wakeful.control s where s.paused)
          and not exists (select from wakeful.task_policy p where p.task = c.task)
          and not exists (select from wakeful.queue_policy r where r.queue = c.queue)
        for update skip locked
    ) c
    cross join lateral (
        select w.lease_expires_at from wakeful.worker w where w.id = claim_poked_1.worker_id and c.tid is not null for key share
    ) w
    -- The clock is read behind both locks: whoever held one of them may have moved the job, or the lease lapsed meanwhile.
    cross join lateral (select wakeful.now() as at where w.lease_expires_at is not null offset 0) t
    where j.ctid = c.tid and w.lease_expires_at > t.at and (c.expires_at is null or c.expires_at > t.at)
    returning j.id, j.task::text, j.queue::text, j.payload::jsonb, j.attempt, j.max_attempts, j.epoch, j.rank,
        coalesce(j.turn, j.ready_at), j.run_at, j.created_at, j.started_at, j.lease_expires_at, j.expires_at, j.correlation_id, j.parent_id, j.origin_id,
        j.tenant::text, j.created_by::text, j.metadata::jsonb, j.attempts, j.saved,
        null::double precision, null::boolean, null::uuid[], null::uuid[], null::jsonb, null::boolean;
    if not found then
        return query select * from wakeful.claim_1(
            worker_id, queues, lanes, limits, tasks, tend => false, sleeps => sleeps, pass_on => pass_on, brief => true, free => free);
    end if;
end
$$;
