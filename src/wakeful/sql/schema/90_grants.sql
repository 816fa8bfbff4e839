-- Who may call what: every function is revoked from public; each role gets its verbs, and no role may touch a table.
-- Promise: a role that is missing in this cluster is passed over; tests hold every cell of this matrix.
-- Locks: the catalogue's.
revoke all on all functions in schema wakeful from public;

do $$
declare
    entry record;
    grantee text;
begin
    for entry in
        select case p.role
                when 'all' then array['wakeful_producer', 'wakeful_worker', 'wakeful_viewer', 'wakeful_operator']
                when 'producer' then array['wakeful_producer', 'wakeful_worker', 'wakeful_operator']
                when 'worker' then array['wakeful_worker']
                when 'viewer' then array['wakeful_viewer', 'wakeful_operator']
                when 'operator' then array['wakeful_operator']
            end as grantees,
            p.kind || ' wakeful.' || n.name as object, p.privilege
        from (values
            ('all', 'execute', 'function', array['now', 'new_id', 'dedup_key', 'canonical_json', 'state_name', 'last_error', 'backoff']),
            ('producer', 'execute', 'function', array['enqueue', 'enqueue_many', 'enqueue_one_1', 'enqueue_batch_1', 'reach_disk_1', 'enter_breaker_1', 'leave_breaker_1']),
            ('worker', 'execute', 'function', array['claim', 'claim_1', 'claim_poked_1', 'attend_1', 'accept_1', 'claim_any_1', 'wake_1', 'complete', 'complete_1', 'fail', 'settle_1',
                'snooze', 'release', 'extend', 'extend_1', 'register_1', 'declare_1', 'beat_1', 'held_1', 'leave_1', 'pulse_1', 'upkeep_1', 'note_1', 'completed_by_1', 'promote', 'rescue',
                'expire', 'make_days', 'drop_days', 'fold_tally', 'fire_1', 'declare_schedules_1']),
            ('viewer', 'execute', 'function', array['stats', 'find_jobs', 'search_jobs']),
            ('viewer', 'select', 'table', array['imports']),
            ('operator', 'execute', 'function', array['import_rows', 'return_rows', 'kept_rows']),
            ('viewer', 'select', 'table', array['jobs', 'dead_letters', 'queue_health', 'queues', 'workers', 'controls', 'audits', 'schedules', 'breakers', 'policies']),
            ('worker', 'execute', 'function', array['fold_metrics', 'roll_metrics', 'tell_1', 'watch_1', 'health', 'vitals', 'depths']),
            ('viewer', 'execute', 'function', array['health', 'vitals', 'depths', 'explain', 'task_metrics', 'metrics_summary']),
            ('viewer', 'select', 'table', array['job_metrics', 'usages', 'alerts']),
            ('operator', 'execute', 'function', array['cancel', 'cancel_many', 'requeue', 'retry_now', 'bury',
                'acknowledge', 'purge', 'cleanup', 'pause_queue', 'resume_queue', 'pause_task', 'resume_task', 'switch_task',
                'add_schedule', 'change_schedule', 'remove_schedule', 'pause_schedule', 'resume_schedule', 'run_schedule',
                'trip_breaker', 'reset_breaker', 'set_breaker', 'set_task_policy', 'set_queue_policy'])
        ) p(role, privilege, kind, names)
        cross join lateral unnest(p.names) n(name)
    loop
        foreach grantee in array entry.grantees loop
            continue when not exists (select from pg_catalog.pg_roles r where r.rolname = grantee);
            execute pg_catalog.format('grant %s on %s to %I', entry.privilege, entry.object, grantee);
            execute pg_catalog.format('grant usage on schema wakeful to %I', grantee);
        end loop;
    end loop;
end
$$;
