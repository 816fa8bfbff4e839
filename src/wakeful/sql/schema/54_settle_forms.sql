-- The single forms of settling, for psql, any language, and a user's own transaction.
-- Promise, locks: as in the set-wise forms. Each raises WF001 when the fence refuses, so the transaction it is part of
--   fails; a repeat of a settlement that was already taken is refused too. Public signatures.
create function wakeful.must_pass(id uuid, refused text) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform wakeful.refuse('WF001', format('job %s is not held under this epoch and worker any more (%s)', must_pass.id, refused),
        'Stop working on it: its lease was lost or it is settled; whoever holds it will finish it.',
        jsonb_build_object('id', must_pass.id, 'refused', must_pass.refused));
end
$$;

create function wakeful.complete(id uuid, epoch bigint, worker_id uuid, result jsonb default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    perform wakeful.must_pass(r.id, r.refused)
    from wakeful.complete_1(complete.worker_id, array[complete.id], array[complete.epoch], array[result::text]) r;
end
$$;

-- retry_in: the wait before the next start; null takes the default back-off. no_retry: dead at once.
create function wakeful.fail(
    id uuid, epoch bigint, worker_id uuid, code text, message text, details jsonb default null,
    retry_in interval default null, no_retry boolean default false) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
    wait interval := fail.retry_in;
begin
    if fail.retry_in < interval '0' or fail.retry_in > wakeful.longest() then
        perform wakeful.refuse('WF003', format('retry_in %s is negative, or longer than %s', fail.retry_in, wakeful.longest()),
            'Give a wait of zero or more that ends.');
    end if;
    if wait is null and not no_retry then
        select wakeful.backoff(j.attempt) into wait from wakeful.job j where j.id = fail.id;
    end if;
    perform wakeful.must_pass(r.id, r.refused)
    from wakeful.settle_1(fail.worker_id, array[fail.id], array[fail.epoch], array['failed'], array[code], array[message],
        array[details::text], array[case when not no_retry then wait end]) r;
end
$$;

create function wakeful.snooze(id uuid, epoch bigint, worker_id uuid, delay interval, reason text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    if snooze.delay is null or snooze.delay < interval '0' or snooze.delay > wakeful.longest() then
        perform wakeful.refuse('WF003', format('delay is missing, negative, or longer than %s', wakeful.longest()),
            'Give an interval of zero or more.');
    end if;
    perform wakeful.must_pass(r.id, r.refused)
    from wakeful.settle_1(snooze.worker_id, array[snooze.id], array[snooze.epoch], array['snoozed'], array[null], array[reason],
        array[null], array[snooze.delay]) r;
end
$$;

create function wakeful.release(id uuid, epoch bigint, worker_id uuid) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
begin
    perform wakeful.must_pass(r.id, r.refused)
    from wakeful.settle_1(release.worker_id, array[release.id], array[release.epoch], array['released'], array[null], array[null],
        array[null], array[interval '0']) r;
end
$$;

-- Returns false when another transaction holds the row just now: try again, the lease is as it was.
create function wakeful.extend(id uuid, epoch bigint, worker_id uuid, lease interval) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
    answer text;
begin
    perform wakeful.check_lease(extend.lease);
    select r.refused into answer
    from wakeful.extend_1(extend.worker_id, array[extend.id], array[extend.epoch], array[extend.lease]) r;
    if answer <> 'locked' then
        perform wakeful.must_pass(extend.id, answer);
    end if;
    return answer is null;
end
$$;
