-- Claim: what a worker asks for when it has free slots.
-- Promise: takes from the named queues and registered tasks only; nothing that is paused, or behind an open breaker or a full limit, is
--   taken or burns an attempt.
--   A worker without a lease on each job must be registered, with its own lease running, or the claim is refused.
-- A job is held by one worker at a time; its start is counted here, and its epoch raised.
-- Locks: jobs to be completed, in id order; a key share on the worker's own row; jobs to be taken, skipping locked ones.

-- The tasks, less those that are paused.
create function wakeful.open_names(kind text, names text[]) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from wakeful.control c where c.kind = open_names.kind and c.paused) then
        return names;
    end if;
    return array(
        select n.name from unnest(names) n(name)
        where not exists (
            select from wakeful.control c where c.kind = open_names.kind and c.name = n.name and c.paused));
end
$$;

-- Refuses a worker whose lease has lapsed. `hold`: keeps its row against its rescue for the rest of the transaction, which
-- writes; who takes nothing need not.
create function wakeful.hold_worker(worker_id uuid, hold boolean default true) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    lapses_at timestamptz;
begin
    if hold then
        -- The clock is read behind the lock: the lease may have lapsed while this waited.
        select w.lease_expires_at into lapses_at from wakeful.worker w where w.id = hold_worker.worker_id for key share;
    else
        select w.lease_expires_at into lapses_at from wakeful.worker w where w.id = hold_worker.worker_id;
    end if;
    if lapses_at is null or lapses_at <= wakeful.now() then
        perform wakeful.refuse('WF006', format('the lease of worker %s has lapsed', hold_worker.worker_id),
            'Register again under a new worker id; its jobs are being rescued.');
    end if;
end
$$;

-- Declares which queues and tasks the worker wants to be poked for (no queue: none, it is busy), until when if it is not
-- registered, and on which channel jobs may be handed to it. Writes only on a change; true when it asks for more pokes than before.
create function wakeful.declare_sleep(
    worker_id uuid, queues text[], tasks text[], until timestamptz default null, takes text default null) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if declare_sleep.queues = '{}' then
        delete from wakeful.sleeper s where s.worker_id = declare_sleep.worker_id;
        return false;
    end if;
    update wakeful.sleeper s set takes = declare_sleep.takes where s.worker_id = declare_sleep.worker_id and s.takes is distinct from declare_sleep.takes;
    insert into wakeful.sleeper as s (worker_id, queues, tasks, until, takes)
    values (declare_sleep.worker_id, declare_sleep.queues, declare_sleep.tasks, declare_sleep.until, declare_sleep.takes)
    on conflict on constraint sleeper_pkey do update
    set queues = excluded.queues, tasks = excluded.tasks, until = excluded.until
        where (s.queues, s.tasks, s.until) is distinct from (excluded.queues, excluded.tasks, excluded.until);
    return found;
end
$$;

-- Rescues, expires and promotes; returns how many jobs of these queues and tasks became ready by their time. A registered worker holds
-- its own row before those of the lapsed, which are skipped where somebody holds them: two that find each other lapsed (the clock
-- has jumped) would otherwise each wait for the row that the other has locked.
create function wakeful.tend_line(worker_id uuid, queues text[], tasks text[], registered boolean) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if registered and exists (
        select from wakeful.worker w where w.lease_expires_at <= wakeful.now() and w.id <> tend_line.worker_id)
    then
        perform wakeful.hold_worker(worker_id);
    end if;
    perform wakeful.rescue(spare => tend_line.worker_id);
    perform wakeful.expire();
    perform wakeful.give_missing_turns(queues, tasks);
    return wakeful.promote(queues, tasks);
end
$$;

-- A worker's claim. queues[i] is served by lane lanes[i], whose free slots are limits[lanes[i]]; h_* are the horizons,
-- one per queue (null: from the start). `lease`: null for the worker's own lease. `tend`: rescue, expire, promote first; else
-- that is done if the line turns out to be short, since nobody should go to sleep on what fell due unannounced.
-- `sleeps`: 'all' or 'these' declares, when slots stay free, that the worker waits for pokes on all or on these queues
-- (and has it look again in a moment, until no poke can have missed it); null declares nothing. `pass_on`: poke the next
-- sleepers when more is ready than was taken. `alone`: take one that must run alone. `done_*`: jobs to complete first, in the same commit (a turn). `brief`: the worker was poked and is in a hurry:
-- what is in line is taken, and what else there is to see to, such as tending, declaring and what is due next, is left to the
-- claim that follows; one that took nothing needs none, unless it reports so. `free`: how many of a lane's limit are free slots
-- (null: all; below zero: so many jobs are held ready already); what is limited is not held ready behind busy ones. `takes`: while it sleeps, jobs may be
-- handed to it on this channel, if two slots stay free in every lane: what is in line keeps one. Returns the jobs, then the report.
create function wakeful.claim_1(
    worker_id uuid, queues text[], lanes integer[], limits integer[], tasks text[], lease interval default null,
    h_ranks smallint[] default null, h_ready_ats timestamptz[] default null, h_ids uuid[] default null,
    tend boolean default true, sleeps text default null, pass_on boolean default false, alone boolean default false,
    done_ids uuid[] default null, done_epochs bigint[] default null, done_results text[] default null,
    brief boolean default false, free integer[] default null, takes text default null)
    returns setof wakeful.claimed_job
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_variable
declare
    -- Of all that falls due, nothing from here on is to be missed.
    began constant timestamptz := wakeful.now();
    open_tasks text[] := tasks;
    open_queues text[] := queues;
    lane_queues text[];
    after wakeful.position[];
    tids tid[];
    at timestamptz;
    taken integer;
    started integer;
    tended boolean := tend;
    held boolean := false;
    promoted integer := 0;
    short_queues text[] := '{}';
    -- Of what something is said; null as long as nothing is.
    steered wakeful.steered_pair[];
    lane_pairs wakeful.steered_pair[];
    plain_tasks text[];
    any_paused boolean;
    any_steered boolean;
    picking wakeful.picking;
    picked boolean;
    -- Asked before the line is looked at. Short of that, the worker must look again: see nobody_is_between.
    sure boolean := sleeps is null or brief or wakeful.nobody_is_between();
    patience integer;
    report wakeful.claimed_job;
begin
    report.started_at := began;
    if lease is not null then
        perform wakeful.check_lease(lease);
    end if;
    if done_ids is not null then
        if lease is null then
            -- Before its jobs, as when it leaves.
            perform wakeful.hold_worker(worker_id);
            held := true;
        end if;
        report.refused := array(
            select r.id from wakeful.complete_1(worker_id, done_ids, done_epochs, done_results) r where r.refused = 'stale');
    end if;
    -- One look tells most claims that nothing is paused and nothing is steered.
    select exists (select from wakeful.control c where c.paused),
        exists (select from wakeful.task_policy) or exists (select from wakeful.queue_policy)
    into any_paused, any_steered;
    if any_paused then
        open_tasks := wakeful.open_names('task', tasks);
        open_queues := wakeful.open_names('queue', queues);
    end if;
    plain_tasks := open_tasks;
    if tend and not brief then
        promoted := wakeful.tend_line(worker_id, open_queues, open_tasks, lease is null);
    end if;
    if any_steered then
        steered := nullif(wakeful.steered_pairs(open_queues, open_tasks), '{}');
        plain_tasks := array(select t.task from unnest(open_tasks) t(task) where not exists (
            select from wakeful.task_policy p where p.task = t.task));
    end if;
    for this_lane in 1..cardinality(limits) loop
        select array_agg(q.queue), array_agg(row(coalesce(q.rank, -101), coalesce(q.ready_at, '-infinity'),
            coalesce(q.id, '00000000-0000-0000-0000-000000000000'))::wakeful.position)
        into lane_queues, after
        from unnest(queues, lanes, h_ranks, h_ready_ats, h_ids) q(queue, lane, rank, ready_at, id)
        where q.lane = this_lane and q.queue = any (open_queues);
        taken := 0;
        picked := false;
        if steered is not null then
            lane_pairs := array(select p from unnest(steered) p where p.queue = any (lane_queues));
            -- What is said of a queue steers all its tasks.
            select array_agg(q.queue), array_agg(row(q.rank, q.ready_at, q.id)::wakeful.position) into lane_queues, after
            from unnest(lane_queues, after) q(queue, rank, ready_at, id)
            where not exists (
                select from unnest(lane_pairs) p
                where p.queue = q.queue and (p.queue_gate is not null or p.fair or p.ageing is not null));
        end if;
        while taken < limits[this_lane] loop
            tids := wakeful.choose(lane_queues, plain_tasks, limits[this_lane] - taken, after, alone);
            if lease is null and not held and tids <> '{}' then
                perform wakeful.hold_worker(worker_id);
                held := true;
            end if;
            at := wakeful.now();
            if lane_pairs <> '{}' and not picked then
                picked := true;
                picking := wakeful.pick(lane_pairs, limits[this_lane] - taken, coalesce(free[this_lane], limits[this_lane]) - taken, alone, at);
                -- What came into line while it picked must not have started before it came.
                at := wakeful.now();
                select f.tids, f.picks into tids, picking.picks
                from wakeful.first_in_line(limits[this_lane] - taken, tids, picking.picks) f;
                if lease is null and not held and picking.picks <> '{}' then
                    perform wakeful.hold_worker(worker_id);
                    held := true;
                end if;
                return query select * from wakeful.start_picked(worker_id, picking.picks, lease, at);
                perform wakeful.mark_gates(picking.keys, picking.key_tasks, at) where picking.keys <> '{}';
                taken := taken + cardinality(picking.picks);
                report.held_back := report.held_back or picking.held_back;
                if picking.busy then
                    report.due_in := least(report.due_in, 0.02 + extract(epoch from at - began));
                end if;
            end if;
            return query
            update wakeful.job j
            set state = 2, attempt = j.attempt + 1, epoch = j.epoch + 1, worker_id = claim_1.worker_id, started_at = at,
                lease_expires_at = at + claim_1.lease, updated_at = at
            where j.ctid = any (tids) and (j.expires_at is null or j.expires_at > at)
            returning j.id, j.task::text, j.queue::text, j.payload::jsonb, j.attempt, j.max_attempts, j.epoch, j.rank,
                coalesce(j.turn, j.ready_at), j.run_at, j.created_at, j.started_at, j.lease_expires_at, j.expires_at, j.correlation_id,
                j.parent_id, j.origin_id, j.tenant::text, j.created_by::text, j.metadata::jsonb, j.attempts, j.saved,
                null::double precision, null::boolean, null::uuid[], null::uuid[], null::jsonb, null::boolean;
            get diagnostics started = row_count;
            taken := taken + started;
            if started < cardinality(tids) then
                -- Some had expired: with those out of the way, there may be more behind them.
                perform wakeful.expire_rows(array(select j.id from wakeful.job j where j.ctid = any (tids)), at);
            elsif taken < limits[this_lane] and not tended and not brief then
                tended := true;
                picked := false;
                promoted := wakeful.tend_line(worker_id, open_queues, open_tasks, lease is null);
            else
                exit;
            end if;
        end loop;
        takes := case when coalesce(free[this_lane], limits[this_lane]) - taken > 1 then takes end;
        if taken < limits[this_lane] then
            short_queues := short_queues || lane_queues;
            -- Two are poked for one job: the slower one waits a moment for the quicker one's commit, or it would look again in a second.
            if (not brief or taken = 0) and wakeful.stays_ready(lane_queues, plain_tasks, after, case when brief then 6 else 1 end) then
                report.due_in := least(report.due_in, 1 + extract(epoch from wakeful.now() - began));
            end if;
        elsif pass_on or promoted > 0 then
            if lease is null then
                -- It is busy from here on, and must not be one of the two whom it pokes.
                delete from wakeful.sleeper s where s.worker_id = claim_1.worker_id;
            end if;
            perform wakeful.poke(more.queue, more.task, wakeful.now(), null, null, null)
            from wakeful.some_ready(lane_queues, plain_tasks, after) more where more.queue is not null;
        end if;
        if steered is not null then
            report := wakeful.after_picking(report, lane_pairs, taken, limits[this_lane], pass_on or promoted > 0, worker_id, tasks, began);
            short_queues := short_queues || array(
                select distinct p.queue from unnest(lane_pairs) p where taken < limits[this_lane] and p.queue <> all (short_queues));
        end if;
    end loop;
    if lease is null and not held then
        perform wakeful.hold_worker(worker_id, hold => false);
    end if;
    if brief and short_queues <> '{}' then
        -- Whoever was quicker may be new here, and this the only one to learn that its lease is to be minded from now on.
        if not held then
            patience := wakeful.minds_the_clock(worker_id, queues, tasks);
            if patience is not null then
                report.due_in := least(report.due_in, wakeful.next_due(open_queues, open_tasks, began) + patience);
            end if;
        end if;
        return next report;
        return;
    end if;
    if promoted = 1000 then
        report.due_in := 0;
    end if;
    if tended and lease is null then
        report.schedules := wakeful.due_schedules(worker_id, tasks);
    end if;
    if sleeps is not null then
        sure := not wakeful.declare_sleep(worker_id,
            case when short_queues <> '{}' and sleeps = 'all' then null else short_queues end, tasks, takes => takes) and sure;
        if short_queues <> '{}' and not sure then
            report.due_in := least(report.due_in, 0.05 + extract(epoch from wakeful.now() - began));
        end if;
    elsif alone then
        -- Alone is alone.
        update wakeful.sleeper s set takes = null where s.worker_id = claim_1.worker_id and s.takes is not null;
    end if;
    -- A worker whose slots are all taken minds the clock too: it promotes what falls due, and pokes who has slots.
    if short_queues <> '{}' or 0 >= all (limits) then
        report.suspects := wakeful.suspects_wait(open_queues, open_tasks);
        patience := wakeful.minds_the_clock(worker_id, queues, tasks);
        if patience is not null then
            -- Since this began: what fell due after it had been looked for is found by the next look, at once.
            report.due_in := least(report.due_in, wakeful.next_due(open_queues, open_tasks, began) + patience,
                wakeful.next_slot_in(tasks, began) + patience);
        end if;
    end if;
    return next report;
end
$$;
