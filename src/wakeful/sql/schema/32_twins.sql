-- What becomes of an asked job that could not be inserted: its id is known already, or a live job has its dedup_key.
-- Promise: each such row ends joined to its twin by its mode, or inserted because the twin went away meanwhile; never
--   two live rows for one (task, dedup_key).
-- Locks: replace, debounce and rerun lock the twins' rows in id order and wait for them; skip and raise lock nothing.
create function wakeful.join_twins(jobs wakeful.asked_job[], over uuid[], poke boolean, at timestamptz)
    returns table (place integer, id uuid, action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    asked wakeful.asked_job;
    twin wakeful.job;
begin
    -- In id order, as settlements lock them: the loop below goes by key.
    perform from wakeful.job j where j.id = any (array(
        select t.id from unnest(jobs) w cross join lateral (
            select j.id from wakeful.job j where j.task = w.task and j.dedup_key = w.dedup_key limit 1) t
        where w.dedup in ('replace', 'debounce', 'rerun'))) order by j.id for update;
    foreach asked in array array(select j from unnest(jobs) j order by j.task, j.dedup_key, j.place) loop
        place := asked.place;
        id := asked.id;
        loop
            if asked.id = any (over) then
                action := 'resent';
                exit;
            end if;
            select j.* into twin from wakeful.job j where j.id = asked.id;
            if found then
                action := case when twin.created_at = at then 'inserted' else 'resent' end;
                exit;
            end if;
            select joined.id, joined.action into id, action from wakeful.join_twin(asked, poke, at) joined;
            exit when action is not null;
            -- The twin is gone: the row is free to be inserted, unless another one is quicker again.
            perform wakeful.insert_asked(array[asked], case when join_twins.poke then array[asked.place] end, at);
            -- A later statement again: the job that went away may have been this very one, and be over by now.
            over := over || wakeful.ids_already_over(array[asked], at);
            delete from wakeful.job j where j.id = asked.id and j.id = any (over) and j.created_at = at;
            id := asked.id;
        end loop;
        return next;
    end loop;
    -- The row that was to speak for its queue may be the one that was not inserted: then the best of the others does, and
    -- what this transaction believes to have said is forgotten.
    if join_twins.poke then
        perform set_config('wakeful.spoken', '', true);
        perform wakeful.poke_best(jobs, at);
    end if;
end
$$;

-- Pokes for the best of these jobs in each queue and task, unless the row itself does so at commit.
create function wakeful.poke_best(jobs wakeful.asked_job[], at timestamptz) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    if not wakeful.someone_hears() then
        return;
    end if;
    perform wakeful.poke(b.queue, b.task, b.run_at, b.rank, b.ready_at, b.id)
    from (
        select distinct on (j.queue, j.task) j.queue, j.task, j.run_at, j.rank, j.ready_at, j.id, j.pokes
        from wakeful.job j
        where j.id = any (array(select w.id from unnest(jobs) w)) and j.created_at = poke_best.at
        order by j.queue, j.task, not j.pokes, (j.ready_at is null), j.rank, j.run_at, j.id
    ) b where not b.pokes;
end
$$;

-- Joins one asked job to the live twin of its dedup_key; action is null when there is none any more.
create function wakeful.join_twin(asked wakeful.asked_job, poke boolean, at timestamptz, out id uuid, out action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    mode constant text := coalesce(asked.dedup, 'skip');
    due_at constant timestamptz := coalesce(asked.run_at, at + asked.delay, at);
    twin wakeful.job;
begin
    if mode in ('skip', 'raise') then
        select j.* into twin from wakeful.job j where j.task = asked.task and j.dedup_key = asked.dedup_key;
    else
        select j.* into twin from wakeful.job j where j.task = asked.task and j.dedup_key = asked.dedup_key for update;
    end if;
    -- One that is past its time is about to be cancelled: what joined it would be lost with it.
    if not found or twin.expires_at <= at and wakeful.expire_rows(array[twin.id], at) > 0 then
        return;
    end if;
    id := twin.id;
    if mode = 'raise' then
        perform wakeful.refuse('WF002', format('a live job of task %s has dedup_key %s already', asked.task, asked.dedup_key),
            'Wait for it to end, or enqueue with dedup => ''skip''.', jsonb_build_object('id', twin.id));
    elsif mode = 'skip' or mode = 'replace' and twin.state = 2 then
        action := 'skipped';
    elsif twin.state = 2 or twin.rerun is not null and mode <> 'debounce' then
        -- One that waits for its retry keeps what was asked for meanwhile: the newest payload is the last to run.
        id := wakeful.note_rerun(twin, asked, due_at);
        action := 'rerun';
    else
        perform wakeful.move_twin(twin, asked, due_at, mode, poke, at);
        action := case mode when 'debounce' then 'debounced' else 'replaced' end;
    end if;
end
$$;

-- Keeps the newest ask on the running row; its settlement makes the next job of it. Returns that job's id, which stays
-- the same however often it is asked for.
create function wakeful.note_rerun(twin wakeful.job, asked wakeful.asked_job, due_at timestamptz) returns uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    next_id constant uuid := coalesce((twin.rerun ->> 'id')::uuid, asked.id);
begin
    update wakeful.job j
    set rerun = to_jsonb(asked) || jsonb_build_object('id', next_id, 'run_at', due_at, 'delay', null,
        'correlation_id', coalesce(asked.correlation_id, wakeful.correlation_of(asked.parent_id), twin.correlation_id))
    where j.id = twin.id;
    return next_id;
end
$$;

-- Replaces payload and time of a job that has not started, or only pushes its time.
create function wakeful.move_twin(
    twin wakeful.job, asked wakeful.asked_job, due_at timestamptz, mode text, poke boolean, at timestamptz)
    returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    moved wakeful.job;
begin
    update wakeful.job j
    set payload = case when mode = 'debounce' then j.payload else asked.payload end,
        metadata = case when mode = 'debounce' then j.metadata else coalesce(asked.metadata, j.metadata) end,
        rank = wakeful.rank_of(coalesce(asked.priority, -j.rank)),
        expires_at = coalesce(asked.expires_at, j.expires_at),
        run_at = due_at,
        state = case when due_at > at then 0 else 1 end,
        -- One that was ready keeps its place in line.
        ready_at = case when due_at > at then null else coalesce(j.ready_at, at) end,
        -- Its key may be another one now, if it was parked.
        limit_key = null,
        updated_at = at
    where j.id = twin.id
    returning * into moved;
    perform wakeful.give_turns(array[moved.id]) where moved.state = 1;
    perform wakeful.poke(moved.queue, moved.task, moved.run_at, moved.rank, moved.ready_at, moved.id) where move_twin.poke;
end
$$;
