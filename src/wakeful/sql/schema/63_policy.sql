-- Policies: what is said about breakers, tasks and queues. Workers say what their code declares; a person may say it in SQL.
-- Promise: the last word holds, for every claim by anyone from its commit on. What is said anew and is the same writes nothing. Jobs that
--   a limit had parked are put back in line when it changes, and starts that an old rate had to wait for do not wait for a new one.
-- Locks: rows of breakers that are changed, in the order of names; the rows of the policies; for tasks whose policy changes an advisory lock,
--   which waits for claims that park or start parked jobs, then those jobs, then the gates.

-- Says how a breaker judges; null keeps what it has, or the default. Its state stays as it is.
create function wakeful.set_breaker(
    name text, threshold integer default null, span interval default null, open_for interval default null,
    open_cap interval default null, probes integer default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform wakeful.check_name('breaker', name);
    if least(threshold, probes) < 1 or greatest(threshold, probes) > 1000 then
        perform wakeful.refuse('WF003', format('threshold or probes of breaker %s is not from 1 to 1000', name), 'Give a number such as 5.');
    elsif least(span, open_for, open_cap) <= interval '0' or greatest(span, open_for, open_cap) > wakeful.longest() then
        perform wakeful.refuse('WF003', format('a span of breaker %s is not positive, or longer than %s', name, wakeful.longest()),
            'Give intervals such as 60 seconds.');
    end if;
    -- A look first: one that is said anew must not be waited for by who settles.
    if exists (
        select from wakeful.breaker b
        where b.name = set_breaker.name and b.threshold = coalesce(set_breaker.threshold, b.threshold)
          and b.span = coalesce(set_breaker.span, b.span) and b.open_for = coalesce(set_breaker.open_for, b.open_for)
          and b.open_cap = greatest(coalesce(set_breaker.open_cap, b.open_cap), b.open_for)
          and b.probes = coalesce(set_breaker.probes, b.probes))
    then
        return;
    end if;
    insert into wakeful.breaker as b (name, threshold, span, open_for, open_cap, probes, updated_at)
    values (name, coalesce(threshold, 5), coalesce(span, '60 seconds'), coalesce(open_for, '60 seconds'),
        coalesce(open_cap, greatest(interval '10 minutes', open_for)), coalesce(probes, 1), wakeful.now())
    on conflict on constraint breaker_pkey do update
    set threshold = coalesce(set_breaker.threshold, b.threshold), span = coalesce(set_breaker.span, b.span),
        open_for = coalesce(set_breaker.open_for, b.open_for),
        open_cap = greatest(coalesce(set_breaker.open_cap, b.open_cap), coalesce(set_breaker.open_for, b.open_for)),
        probes = coalesce(set_breaker.probes, b.probes), updated_at = wakeful.now(),
        -- One success at least is still to come, or it would be half-open for ever.
        success_count = case when b.state = 'half_open' then least(b.success_count, coalesce(set_breaker.probes, b.probes) - 1)
            else b.success_count end;
end
$$;

-- Says all about a task at once: what is null does not hold any more. rate: so many starts (`rate`) in every `per`, `burst` of them
-- at once. key: 'tenant', or the path to a value in the payload ('account.id'; 'payload.tenant' for a value of that name); null limits the
-- task as a whole.
create function wakeful.set_task_policy(
    task text, breaker text default null, concurrency integer default null, rate double precision default null,
    per interval default '1 second', burst integer default null, key text default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if wakeful.say_of_task(task, breaker, concurrency, rate, per, burst, key) then
        perform wakeful.begin_anew(array[task]);
    end if;
end
$$;

-- Writes the policy of a task; true when that changed it.
create function wakeful.say_of_task(
    task text, breaker text, concurrency integer, rate double precision, per interval, burst integer, key text) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    every constant interval := wakeful.check_rate(rate, per, burst);
    keyed_by constant text := case when key = 'tenant' then 'tenant' when key is not null then 'payload' end;
    key_path constant text[] := case when keyed_by = 'payload' then string_to_array(regexp_replace(key, '^payload\.(.)', '\1'), '.') end;
begin
    perform wakeful.check_name('task', task);
    if concurrency <= 0 then
        perform wakeful.refuse('WF003', format('concurrency %s is not positive', concurrency), 'Give 1 or more, or none at all.');
    elsif key is not null and num_nonnulls(concurrency, rate) = 0 then
        perform wakeful.refuse('WF003', 'key is given without concurrency or rate', 'Give one of them, or no key.');
    end if;
    if num_nonnulls(breaker, concurrency, rate) = 0 then
        delete from wakeful.task_policy p where p.task = say_of_task.task;
    else
        if breaker is not null then
            perform wakeful.set_breaker(breaker);
        end if;
        insert into wakeful.task_policy as p (task, breaker, concurrency, every, burst, keyed_by, key_path)
        values (task, breaker, concurrency, every, case when every is not null then coalesce(burst, wakeful.default_burst(every)) end,
            keyed_by, key_path)
        on conflict on constraint task_policy_pkey do update
        set breaker = excluded.breaker, concurrency = excluded.concurrency, every = excluded.every, burst = excluded.burst,
            keyed_by = excluded.keyed_by, key_path = excluded.key_path
            where (p.breaker, p.concurrency, p.every, p.burst, p.keyed_by, p.key_path) is distinct from
                (excluded.breaker, excluded.concurrency, excluded.every, excluded.burst, excluded.keyed_by, excluded.key_path);
    end if;
    return found;
end
$$;

-- Says all about a queue at once: what is null does not hold any more. fair: its tenants take turns, by weights ({tenant: weight}).
create function wakeful.set_queue_policy(
    queue text, concurrency integer default null, rate double precision default null, per interval default '1 second',
    burst integer default null, fair boolean default false, weights jsonb default '{}', ageing interval default null,
    max_pending integer default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    every constant interval := wakeful.check_rate(rate, per, burst);
begin
    perform wakeful.check_name('queue', queue);
    if concurrency <= 0 or max_pending <= 0 or ageing <= interval '0' then
        perform wakeful.refuse('WF003', 'concurrency, max_pending or ageing is not positive', 'Give more than zero, or none at all.');
    elsif ageing > wakeful.longest() then
        perform wakeful.refuse('WF003', format('ageing %s is longer than %s', ageing, wakeful.longest()), 'Give none at all.');
    elsif jsonb_typeof(weights) <> 'object' then
        perform wakeful.refuse('WF003', 'weights is not a JSON object', 'Give an object such as {"acme": 2}.');
    elsif exists (select from jsonb_each(weights) w where jsonb_typeof(w.value) <> 'number' or not (w.value::text)::numeric between 0.001 and 1000) then
        perform wakeful.refuse('WF003', 'a weight is not a number from 0.001 to 1000', 'Give one for each tenant that is not like the others.');
    end if;
    if num_nonnulls(concurrency, rate, ageing, max_pending) = 0 and not coalesce(fair, false) then
        delete from wakeful.queue_policy r where r.queue = set_queue_policy.queue;
    else
        insert into wakeful.queue_policy as r (queue, concurrency, every, burst, fair, weights, ageing, max_pending)
        values (queue, concurrency, every, case when every is not null then coalesce(burst, wakeful.default_burst(every)) end,
            coalesce(fair, false), coalesce(weights, '{}'), ageing, max_pending)
        on conflict on constraint queue_policy_pkey do update
        set concurrency = excluded.concurrency, every = excluded.every, burst = excluded.burst, fair = excluded.fair,
            weights = excluded.weights, ageing = excluded.ageing, max_pending = excluded.max_pending
            where (r.concurrency, r.every, r.burst, r.fair, r.weights, r.ageing, r.max_pending) is distinct from
                (excluded.concurrency, excluded.every, excluded.burst, excluded.fair, excluded.weights, excluded.ageing, excluded.max_pending);
    end if;
    if found then
        perform wakeful.shorten_waits(array[wakeful.queue_gate(queue)], every,
            (select r.burst from wakeful.queue_policy r where r.queue = set_queue_policy.queue));
        insert into wakeful.queue_depth (queue, pending, counted_at) values (queue, 0, '-infinity') on conflict do nothing;
        perform wakeful.give_turns(array(
            select j.id from wakeful.job j
            where fair and j.queue = set_queue_policy.queue and j.state = 1 and j.turn is null for update skip locked));
        perform pg_notify('wakeful', '{"look": true}');
    end if;
end
$$;

-- The time between two starts of a rate.
create function wakeful.check_rate(rate double precision, per interval, burst integer) returns interval
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if rate <= 0 or rate is not null and (per is null or per <= interval '0') or burst <= 0 then
        perform wakeful.refuse('WF003', 'rate, per or burst is not positive', 'Give a rate such as 100 per 1 minute.');
    elsif rate is not null and (per > wakeful.longest()
        or extract(epoch from per)::double precision / rate > extract(epoch from wakeful.longest())::double precision) then
        perform wakeful.refuse('WF003', format('rate and per let one start in more than %s', wakeful.longest()),
            'Give a rate such as 100 per 1 minute.');
    elsif burst is not null and rate is null then
        perform wakeful.refuse('WF003', 'burst is given without a rate', 'Give both, or none.');
    end if;
    return case when rate is not null then greatest(per / rate, interval '1 microsecond') end;
end
$$;

-- As many starts at once as fall into a tenth of a second, so that a high rate is not paid for by as many wake-ups.
create function wakeful.default_burst(every interval) returns integer
    language sql immutable parallel safe
    return greatest(1, floor(0.1 / extract(epoch from every)))::integer;

-- Tasks of which something else is said now: their parked jobs are put back in line, their gates follow the new rate, and everyone looks. All
-- claims that go by the old policy and park jobs are over before it begins, and all jobs come before all gates, as in a claim.
create function wakeful.begin_anew(tasks text[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    changed text;
begin
    foreach changed in array array(select t.task from unnest(begin_anew.tasks) t(task) order by t.task) loop
        perform pg_advisory_xact_lock(hashtextextended('wakeful.keyed ' || changed, 0));
    end loop;
    update wakeful.job j set limit_key = null
    where j.id in (
        select p.id from wakeful.job p join unnest(begin_anew.tasks) t(task) on starts_with(p.limit_key, wakeful.key_gate(t.task, ''))
        where p.limit_key is not null and p.state = 1 order by p.id for update of p);
    delete from wakeful.freed_slot f where f.task = any (begin_anew.tasks);
    delete from wakeful.gate g where g.task = any (begin_anew.tasks) and g.arrives_at is null;
    update wakeful.gate g set wake_at = null where g.task = any (begin_anew.tasks) and g.wake_at is not null;
    perform wakeful.shorten_waits(array(select g.key from wakeful.gate g where g.task = t.task), p.every, p.burst)
    from unnest(begin_anew.tasks) t(task) left join wakeful.task_policy p on p.task = t.task;
    perform pg_notify('wakeful', '{"look": true}');
end
$$;

-- Gates whose rate has changed: nobody waits longer than one who has just used up the new one. No rate: what was paid is forgotten.
create function wakeful.shorten_waits(keys text[], every interval, burst integer) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
begin
    if shorten_waits.every is null then
        delete from wakeful.gate g where g.key = any (shorten_waits.keys);
    else
        update wakeful.gate g set arrives_at = wakeful.now() + shorten_waits.burst * shorten_waits.every
        where g.key = any (shorten_waits.keys) and g.arrives_at > wakeful.now() + shorten_waits.burst * shorten_waits.every;
    end if;
end
$$;

-- What a worker's code declares: its breakers, and a policy for each task that has one ({name: arguments of set_breaker or
-- set_task_policy}); for the others of its tasks none holds. Queues are told of only where code says something.
create function wakeful.declare_1(tasks text[], breakers jsonb, task_policies jsonb, queue_policies jsonb) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    changed text[];
begin
    -- In the order in which settlements take them; those that only a task tells of are made here too.
    perform wakeful.set_breaker(b.name, (b.said ->> 'threshold')::integer, (b.said ->> 'span')::interval,
        (b.said ->> 'open_for')::interval, (b.said ->> 'open_cap')::interval, (b.said ->> 'probes')::integer)
    from (
        select n.name, breakers -> n.name as said
        from (
            select jsonb_object_keys(breakers) as name
            union
            select p.value ->> 'breaker' from jsonb_each(task_policies) p where p.key = any (tasks)
        ) n
        where n.name is not null order by n.name
    ) b;
    changed := array(
        select t.task
        from (select t.task from unnest(tasks) t(task) order by t.task) t
        cross join lateral (select task_policies -> t.task as said) p
        where (p.said is not null or exists (select from wakeful.task_policy h where h.task = t.task))
          and wakeful.say_of_task(t.task, p.said ->> 'breaker', (p.said ->> 'concurrency')::integer,
            (p.said ->> 'rate')::double precision, (p.said ->> 'per')::interval, (p.said ->> 'burst')::integer, p.said ->> 'key'));
    perform wakeful.begin_anew(changed) where changed <> '{}';
    perform wakeful.set_queue_policy(q.key, (q.value ->> 'concurrency')::integer, (q.value ->> 'rate')::double precision,
        (q.value ->> 'per')::interval, (q.value ->> 'burst')::integer, coalesce((q.value ->> 'fair')::boolean, false),
        coalesce(q.value -> 'weights', '{}'), (q.value ->> 'ageing')::interval, (q.value ->> 'max_pending')::integer)
    from (select q.key, q.value from jsonb_each(queue_policies) q order by q.key) q;
end
$$;
