-- Import: rows of a home-made jobs table become jobs, once each, and go back as long as nothing has begun.
-- Promise: a row of a source, known by its key, makes one job however often it is offered and by however many at once: the
--   ledger's key decides, in the transaction that makes the job. A row that comes with attempts keeps them, and has one
--   start left at least. What cannot be a job fails the call as a whole; the caller halves the set to find it.
-- The rows themselves are read and removed by the caller, under the caller's own rights, in the same transaction.
-- Locks: ledger rows in key order, waiting for an importer that has just taken the same row; as in enqueue_rows; going
--   back locks the ledger against importers, who could join what goes, and jobs, skipping locked ones.

-- What has come from where. `epoch` is the job's at its import: a job that still has it was never started here. `asked` is
-- what it was asked to be, as a digest: a job that has another one was changed since. Null for what made no waiting job.
create table wakeful.imported (
    source      text        not null,
    legacy_key  text        not null,
    job_id      uuid        not null,
    joined      boolean     not null default false,
    epoch       bigint      not null,
    asked       text,
    imported_at timestamptz not null,
    original    jsonb       not null,
    constraint imported_pkey primary key (source, legacy_key)
);

create index imported_job on wakeful.imported (job_id);

-- What an earlier down-migration kept comes back: without it, a second import would double every job.
do $$
begin
    if to_regclass('wakeful_kept.row') is not null then
        insert into wakeful.imported
        select (jsonb_populate_record(null::wakeful.imported, k.row)).* from wakeful_kept.row k where k.kind = 'imported';
    end if;
end
$$;

-- One row of a foreign table in this schema's words; null stands for the default. state: waiting, completed or dead. parent is the
-- key of another row. The job's id and the row's place are given here.
create type wakeful.legacy_row as (
    key text, state text, task text, payload jsonb, queue text, priority integer, run_at timestamptz, attempt integer,
    max_attempts integer, dedup_key text, tenant text, correlation_id uuid, parent text, created_by text, error text,
    error_code text, error_at timestamptz, created_at timestamptz, started_at timestamptz, finished_at timestamptz, result jsonb,
    original jsonb, id uuid, place integer
);

-- A JSON text in a column of text is the value that it says.
create function wakeful.legacy_payload(payload jsonb) returns jsonb
    language sql immutable parallel safe
    return coalesce(case pg_catalog.jsonb_typeof(payload)
        when 'string' then (payload #>> '{}')::jsonb when 'null' then null else payload end, '{}');

-- A digest of what a job is asked to be, which its way through the queue leaves as it is.
create function wakeful.asked_of(job wakeful.job) returns text
    language sql stable parallel safe
    return pg_catalog.md5(pg_catalog.jsonb_build_array((job).queue, (job).payload, (job).metadata, (job).rank, (job).max_attempts,
        extract(epoch from (job).run_at), extract(epoch from (job).expires_at))::text);

-- Takes the rows of a source that the ledger does not have, and returns what became of each: inserted, joined (a live job
-- has its dedup_key), completed, dead, or known (it was imported before).
create function wakeful.import_rows(source text, rows jsonb)
    returns table (legacy_key text, job_id uuid, action text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    offered wakeful.legacy_row[];
    arriving wakeful.legacy_row[];
    keys text[];
begin
    perform wakeful.check_name('source', import_rows.source);
    if jsonb_typeof(import_rows.rows) is distinct from 'array' or jsonb_path_exists(import_rows.rows, 'strict $[*] ? (@.type() != "object")') then
        perform wakeful.refuse('WF003', 'rows is not a JSON array of objects', 'Give an object for each row.');
    end if;
    offered := array(
        select jsonb_populate_record(null::wakeful.legacy_row,
            e.legacy || jsonb_build_object('id', wakeful.new_id(), 'place', e.place))
        from jsonb_array_elements(import_rows.rows) with ordinality e(legacy, place));
    perform wakeful.refuse('WF003', format('row %s has no key, or state %s', coalesce(o.key, '?'), coalesce(o.state, 'null')),
        'Give a key, and a state of waiting, completed or dead.')
    from unnest(offered) o where o.key is null or coalesce(o.state, '') not in ('waiting', 'completed', 'dead') limit 1;
    perform wakeful.refuse('WF003', format('row %s has no task', o.key), 'Give each row a task.')
    from unnest(offered) o where coalesce(o.task, '') = '' limit 1;
    perform wakeful.refuse('WF003', format('row %s has a time that is infinite, or not within the years 1 to 9999', o.key),
        'Give a time that a calendar has, or none.')
    from unnest(offered) o
    where false in (wakeful.in_calendar(o.run_at), wakeful.in_calendar(o.error_at), wakeful.in_calendar(o.created_at),
        wakeful.in_calendar(o.started_at), wakeful.in_calendar(o.finished_at)) limit 1;
    with noted as (
        insert into wakeful.imported (source, legacy_key, job_id, epoch, imported_at, original)
        select import_rows.source, o.key, o.id, coalesce(o.attempt, 0), at, coalesce(o.original, '{}')
        from unnest(offered) o order by o.key
        on conflict do nothing
        returning legacy_key
    )
    select array_agg(n.legacy_key) into keys from noted n;
    arriving := array(select o from unnest(offered) o where o.key = any (keys) order by o.place);
    return query
    select o.key, i.job_id, 'known' from unnest(offered) o
    join wakeful.imported i on i.source = import_rows.source and i.legacy_key = o.key
    where o.key <> all (coalesce(keys, '{}'));
    return query
    select * from wakeful.import_waiting(import_rows.source,
        array(select a from unnest(arriving) a where a.state = 'waiting' order by a.place), at);
    perform wakeful.import_completed(import_rows.source, array(select a from unnest(arriving) a where a.state = 'completed'), at);
    perform wakeful.import_dead(import_rows.source, array(select a from unnest(arriving) a where a.state = 'dead'), at);
    return query select a.key, a.id, a.state from unnest(arriving) a where a.state <> 'waiting';
end
$$;

-- Where a job has come from, in its metadata.
create function wakeful.imported_from(source text, key text) returns jsonb
    language sql immutable parallel safe
    return pg_catalog.jsonb_build_object('imported_from', pg_catalog.jsonb_build_object('source', source, 'key', key));

-- The job that a row's parent has become; null for one that has not come, or comes later.
create function wakeful.imported_parent(source text, legacy wakeful.legacy_row) returns uuid
    language sql stable
    return (select i.job_id from wakeful.imported i where i.source = imported_parent.source and i.legacy_key = (legacy).parent);

-- The history of a row that has failed before; null for one that has not.
create function wakeful.imported_attempts(legacy wakeful.legacy_row, at timestamptz) returns jsonb
    language sql stable
    return case when coalesce((legacy).error, (legacy).error_code) is not null then
        pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object('attempt', coalesce((legacy).attempt, 0),
            'ended_at', coalesce((legacy).error_at, (legacy).finished_at, (legacy).started_at, (legacy).created_at, at),
            'outcome', 'failed', 'code', coalesce((legacy).error_code, 'imported'),
            'message', coalesce((legacy).error, ''))) end;

create function wakeful.import_waiting(source text, legacy wakeful.legacy_row[], at timestamptz)
    returns table (legacy_key text, job_id uuid, action text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    made jsonb;
begin
    if legacy = '{}' then
        return;
    end if;
    select jsonb_agg(jsonb_build_object('place', e.place, 'id', e.id, 'action', e.action)) into made
    from wakeful.enqueue_rows(array(
        select jsonb_populate_record(null::wakeful.asked_job, jsonb_build_object('place', l.place, 'id', l.id, 'task', l.task,
            'payload', wakeful.legacy_payload(l.payload), 'queue', l.queue, 'priority', l.priority, 'run_at', l.run_at,
            'max_attempts', case when l.attempt > 0 then greatest(coalesce(l.max_attempts, 5), l.attempt + 1) else l.max_attempts end,
            'dedup_key', l.dedup_key, 'tenant', l.tenant, 'correlation_id', l.correlation_id, 'created_by', l.created_by,
            'metadata', wakeful.imported_from(import_waiting.source, l.key)))
        from unnest(legacy) l order by l.place), true, true) e;
    perform wakeful.refuse('WF005', format('enqueuing of task %s is switched off', l.task), 'Switch it on first.')
    from jsonb_to_recordset(made) m(place integer, action text) join unnest(legacy) l on l.place = m.place
    where m.action = 'off' limit 1;
    update wakeful.imported i set job_id = m.id, joined = true
    from jsonb_to_recordset(made) m(place integer, id uuid, action text) join unnest(legacy) l on l.place = m.place
    where i.source = import_waiting.source and i.legacy_key = l.key and m.id <> l.id;
    update wakeful.job j
    set attempt = coalesce(l.attempt, 0), epoch = coalesce(l.attempt, 0), created_at = least(l.created_at, at),
        -- Only now: a parent may have joined a job that is there.
        parent_id = wakeful.imported_parent(import_waiting.source, l), attempts = wakeful.imported_attempts(l, at)
    from unnest(legacy) l where j.id = l.id;
    update wakeful.imported i set asked = wakeful.asked_of(j)
    from unnest(legacy) l join wakeful.job j on j.id = l.id
    where i.source = import_waiting.source and i.legacy_key = l.key and not i.joined;
    return query
    select l.key, m.id, case when m.id = l.id then 'inserted' else 'joined' end
    from jsonb_to_recordset(made) m(place integer, id uuid) join unnest(legacy) l on l.place = m.place;
end
$$;

create function wakeful.import_completed(source text, legacy wakeful.legacy_row[], at timestamptz) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    with kept as (
        insert into wakeful.finished_job (
            id, queue, task, state, rank, attempt, max_attempts, epoch, run_at, ready_at, started_at, finished_at, created_at,
            correlation_id, parent_id, dedup_key, tenant, created_by, payload, metadata, attempts, result)
        select l.id, coalesce(l.queue, 'default'), l.task, 3, -coalesce(l.priority, 0), coalesce(l.attempt, 0),
            coalesce(l.max_attempts, 5), coalesce(l.attempt, 0), coalesce(l.run_at, l.created_at, at), null, l.started_at,
            least(coalesce(l.finished_at, l.started_at, l.created_at, at), at), least(l.created_at, at),
            coalesce(l.correlation_id, l.id), wakeful.imported_parent(import_completed.source, l), l.dedup_key, l.tenant,
            l.created_by, wakeful.legacy_payload(l.payload),
            wakeful.imported_from(import_completed.source, l.key), wakeful.imported_attempts(l, at), l.result
        from unnest(legacy) l
        returning finished_at, task
    )
    insert into wakeful.tally_delta (day, task, state, jobs)
    select wakeful.day_of(k.finished_at), k.task, 3, count(*) from kept k group by 1, 2;
end;

create function wakeful.import_dead(source text, legacy wakeful.legacy_row[], at timestamptz) returns void
    language sql volatile
    set search_path = pg_catalog, pg_temp
begin atomic
    with kept as (
        insert into wakeful.dead_letter (
            id, task, queue, tenant, correlation_id, error_code, error_message, died_at, original_job)
        select l.id, l.task, coalesce(l.queue, 'default'), l.tenant, coalesce(l.correlation_id, l.id),
            coalesce(l.error_code, 'imported'), coalesce(l.error, ''),
            least(coalesce(l.finished_at, l.error_at, l.started_at, l.created_at, at), at),
            jsonb_strip_nulls(jsonb_build_object('id', l.id, 'queue', coalesce(l.queue, 'default'), 'task', l.task, 'state', 1,
                'rank', -coalesce(l.priority, 0), 'attempt', coalesce(l.attempt, 0), 'max_attempts', coalesce(l.max_attempts, 5),
                'epoch', coalesce(l.attempt, 0), 'crashes', 0, 'shared_crashes', 0, 'suspect', false,
                'run_at', coalesce(l.run_at, l.created_at, at), 'started_at', l.started_at, 'created_at', least(l.created_at, at),
                'updated_at', at, 'correlation_id', coalesce(l.correlation_id, l.id),
                'parent_id', wakeful.imported_parent(import_dead.source, l), 'dedup_key', l.dedup_key,
                'tenant', l.tenant, 'created_by', l.created_by, 'attempts', wakeful.imported_attempts(l, at)))
            -- Apart: what is null inside a payload was told, and stays.
            || jsonb_build_object('payload', wakeful.legacy_payload(l.payload),
                'metadata', wakeful.imported_from(import_dead.source, l.key))
        from unnest(legacy) l
        returning died_at, task
    )
    insert into wakeful.tally_delta (day, task, state, jobs)
    select wakeful.day_of(k.died_at), k.task, 4, count(*) from kept k group by 1, 2;
end;

-- Why a job does not go back to a source, by the row that `made` it; null for one that does: it waits as it was imported.
create function wakeful.kept_because(source text, job wakeful.job, made wakeful.imported) returns text
    language sql stable
    return case
        when (job).id is null then 'started'
        when (made).source is distinct from kept_because.source then 'joined'
        when (job).state = 2 or (job).epoch <> (made).epoch then 'started'
        when exists (select from wakeful.imported o where o.job_id = (job).id and o.source <> kept_because.source) then 'shared'
        when wakeful.asked_of(job) <> (made).asked then 'changed'
    end;

-- Takes back up to `want` jobs of a source that were never started here: each is cancelled, its rows leave the ledger and are
-- returned as they were, for the caller to put them back in the same transaction. What has begun stays, and what was changed
-- since, and what rows of another source have joined. Jobs that come from the keys in `but` are passed over.
create function wakeful.return_rows(source text, want integer, actor text default null, but text[] default '{}')
    returns table (legacy_key text, job_id uuid, original jsonb)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
#variable_conflict use_column
declare
    at constant timestamptz := wakeful.now();
    spared uuid[];
    ids uuid[];
begin
    perform wakeful.check_name('source', return_rows.source);
    if return_rows.want is null or return_rows.want < 0 then
        perform wakeful.refuse('WF003', 'want is missing or negative', 'Give how many rows to take back.');
    end if;
    lock table wakeful.imported in share row exclusive mode;
    spared := array(
        select i.job_id from wakeful.imported i where i.source = return_rows.source and i.legacy_key = any (return_rows.but));
    ids := array(
        select j.id from wakeful.imported i join wakeful.job j on j.id = i.job_id
        where i.source = return_rows.source and not i.joined and j.state < 2 and j.epoch = i.epoch
            and wakeful.kept_because(return_rows.source, j, i) is null and j.id <> all (spared)
        order by j.id limit return_rows.want for update of j skip locked);
    perform wakeful.retire_cancelled(array(
        select row(i.id, 'cancelled', null, 'returned to ' || return_rows.source, null, null, true)::wakeful.ended_attempt
        from unnest(ids) i(id)), at);
    insert into wakeful.audit (at, actor, act, job_id, details)
    select at, coalesce(return_rows.actor, session_user::text), 'return', i.id, jsonb_build_object('source', return_rows.source)
    from unnest(ids) i(id);
    return query
    delete from wakeful.imported i where i.source = return_rows.source and i.job_id = any (ids)
    returning i.legacy_key, i.job_id, i.original;
end
$$;

-- How many rows of a source return_rows leaves here, and why: started (or over), joined (their job is another's, or was here
-- before), shared (rows of another source have joined their job), or changed (what is asked of it is not what was imported).
create function wakeful.kept_rows(source text) returns table (reason text, rows bigint)
    language sql stable security definer
    set search_path = pg_catalog, pg_temp
begin atomic
    select k.reason, count(*) from (
        select wakeful.kept_because(kept_rows.source, j, m) as reason
        from wakeful.imported i
        left join wakeful.imported m on m.job_id = i.job_id and not m.joined
        left join wakeful.job j on j.id = i.job_id
        where i.source = kept_rows.source
    ) k where k.reason is not null group by 1 order by 1;
end;
