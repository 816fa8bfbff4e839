-- Hindrances: breakers that are not closed, and limits that are full, for those who ask why a job waits.
-- Promise: facts as JSON, at the moment of asking; nothing is taken, so the next claim may find it otherwise.
-- Locks: none.

-- All breakers, with since when each is as it is, and when an open one is tried again.
create function wakeful.breakers_told() returns jsonb
    language sql volatile
    set search_path = pg_catalog, pg_temp
    return (
        select coalesce(jsonb_agg(jsonb_build_object('name', b.name, 'state', b.state,
            'since', case b.state when 'open' then b.opened_at when 'half_open' then b.half_opened_at else b.closed_at end,
            'until', b.probe_at) order by b.name), '[]')
        from wakeful.breaker b);

-- The limits that keep a job from starting: `most` run at once, with up to three of those that hold them, or the rate lets the
-- next one start only in `seconds`.
create function wakeful.full_limits(live wakeful.job, at timestamptz) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
begin
    return (
        select coalesce(jsonb_agg(jsonb_build_object('name', l.name, 'most', l.most, 'used', r.used, 'held_by', r.ids, 'seconds',
            case when wakeful.tokens(g.arrives_at, l.every, l.burst, full_limits.at) <= 0
                then wakeful.token_in(g.arrives_at, l.every, l.burst, full_limits.at) end) order by l.name), '[]')
        from (
            select case when p.keyed_by is null then wakeful.task_gate(p.task) else wakeful.key_gate(p.task,
                    case p.keyed_by when 'tenant' then live.tenant else live.payload #>> p.key_path end) end as name,
                p.concurrency as most, p.every, p.burst, false as of_queue
            from wakeful.task_policy p where p.task = live.task
            union all
            select wakeful.queue_gate(q.queue), q.concurrency, q.every, q.burst, true
            from wakeful.queue_policy q where q.queue = live.queue
        ) l
        left join wakeful.gate g on g.key = l.name
        cross join lateral (
            select count(*) as used, (array_agg(j.id))[1:3] as ids from wakeful.job j
            where j.state = 2 and case when l.of_queue then j.queue_slot and j.queue = live.queue else j.limit_key = l.name end
        ) r
        where r.used >= l.most or wakeful.tokens(g.arrives_at, l.every, l.burst, full_limits.at) <= 0);
end
$$;
