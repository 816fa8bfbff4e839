"""A long history and a long schedule, loaded straight into the tables."""

from __future__ import annotations

from tests.effort import times
from tests.sessions import Session

# A tenth of what the product promises to bear; ten times the effort is all of it.
FINISHED = times(100_000)
SCHEDULED = times(100_000)
DEAD = times(10_000)
UNREGISTERED = times(10_000)
READY = times(2_000)
SCHEDULES = times(10_000)

_LOADS = (
    """insert into wakeful.finished_job (id, queue, task, state, rank, attempt, max_attempts, epoch, run_at, ready_at,
        started_at, finished_at, created_at, worker_id, correlation_id, payload)
    select gen_random_uuid(), 'default', 't', 3, 0, 1, 5, 1, now(), now(), now(), now() + mod(n, 7) * interval '1 day',
        now(), gen_random_uuid(), gen_random_uuid(), '{}' from generate_series(1, %(finished)s) n""",
    """insert into wakeful.job (id, queue, task, state, rank, max_attempts, pokes, run_at, created_at, updated_at,
        correlation_id, payload, dedup_key, expires_at)
    select gen_random_uuid(), 'default', case when mod(n, 2) = 0 then 't' else 'unknown' end, 0, 0, 5, false,
        now() + interval '1 day' + n * interval '1 second', now(), now(), gen_random_uuid(), '{}',
        case when mod(n, 4) = 0 then 'key ' || n end, case when mod(n, 5) = 0 then now() + interval '1 year' end
    from generate_series(1, %(scheduled)s) n""",
    """insert into wakeful.job (id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at, created_at,
        updated_at, correlation_id, payload)
    select gen_random_uuid(), 'default', 'unknown', 1, (mod(n, 3))::smallint, 5, false, now(), now(), now(), now(),
        gen_random_uuid(), '{}' from generate_series(1, %(unregistered)s) n""",
    """insert into wakeful.job (id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at, created_at,
        updated_at, correlation_id, payload)
    select gen_random_uuid(), 'default', 't', 1, 50, 5, false, now(), now(), now(), now(),
        gen_random_uuid(), '{}' from generate_series(1, %(ready)s) n""",
    """insert into wakeful.schedule (name, task, payload, every, source, anchor, since, next_at, created_at, changed_at,
        changed_by)
    select 'schedule ' || n, case when mod(n, 2) = 0 then 't' else 'other' end, '{}', '1 day', 'runtime', now(), now(),
        case when mod(n, 2) = 0 then now() + n * interval '1 minute' else '-infinity' end, now(), now(), 'me'
    from generate_series(1, %(schedules)s) n""",
    """insert into wakeful.dead_letter (id, task, queue, correlation_id, error_code, error_message, died_at,
        original_job)
    select gen_random_uuid(), 't', 'default', gen_random_uuid(), 'E', 'm', now(), '{"attempt": 5, "epoch": 5}'
    from generate_series(1, %(dead)s) n""",
)


def load(db: Session) -> None:
    """Fill the tables behind the functions' back, in seconds instead of hours."""
    sizes = {
        "finished": FINISHED,
        "scheduled": SCHEDULED,
        "dead": DEAD,
        "unregistered": UNREGISTERED,
        "ready": READY,
        "schedules": SCHEDULES,
    }
    for statement in _LOADS:
        db.execute(statement, sizes)
