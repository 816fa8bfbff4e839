"""Crowds of other jobs, written straight into the tables by their owner: far faster than living each life."""

from __future__ import annotations

from benchmarks.server import Connection


def add_finished(conn: Connection, jobs: int) -> None:
    """Completed jobs, all of today: the partition into which settlements go."""
    conn.execute(
        """insert into wakeful.finished_job (id, queue, task, state, rank, attempt, max_attempts, epoch, run_at,
            started_at, finished_at, created_at, worker_id, correlation_id, payload)
        select wakeful.new_id(), 'default', 'noop', 3, 0, 1, 5, 1, now(), now(), now(), now(), gen_random_uuid(),
            gen_random_uuid(), jsonb_build_object('n', n)
        from generate_series(1, %s) n""",
        [jobs],
    )


def add_past(conn: Connection, jobs: int) -> None:
    """Completed jobs of eight days, a partition each, half of them in requests that others began; one is `rare`."""
    conn.execute(
        """insert into wakeful.finished_job (id, queue, task, state, rank, attempt, max_attempts, epoch, run_at,
            started_at, finished_at, created_at, worker_id, correlation_id, payload)
        select i.id, 'default', case when i.n = 0 then 'rare' when i.n %% 5 = 0 then 'mail' else 'noop' end, 3, 0, 1, 5,
            1, now(), now(), now() + i.n * interval '8 days' / %(jobs)s, now(), gen_random_uuid(),
            case when i.n %% 2 = 0 then i.id else gen_random_uuid() end, jsonb_build_object('n', i.n)
        from (select n, wakeful.new_id() as id from generate_series(0, %(jobs)s - 1) n) i""",
        {"jobs": jobs},
    )


def add_scheduled(conn: Connection, jobs: int) -> None:
    """Jobs of the measured task and queue, due from tomorrow on."""
    _add_live(conn, jobs, "noop", "0", "now() + interval '1 day' + n * interval '1 second'", "null")


def add_unregistered(conn: Connection, jobs: int) -> None:
    """Ready jobs of a task that no worker knows, ahead of all others in the same queue."""
    _add_live(conn, jobs, "unregistered", "1", "now()", "now() - interval '1 day'")


def add_ready(conn: Connection, jobs: int) -> None:
    """Ready jobs of the measured task."""
    _add_live(conn, jobs, "noop", "1", "now()", "now()")


def add_dead(conn: Connection, jobs: int) -> None:
    """Dead letters."""
    conn.execute(
        """insert into wakeful.dead_letter (id, task, queue, correlation_id, error_code, error_message, died_at,
            original_job)
        select wakeful.new_id(), 'noop', 'default', gen_random_uuid(), 'ValueError', 'no', now(), '{}'
        from generate_series(1, %s) n""",
        [jobs],
    )


def _add_live(conn: Connection, jobs: int, task: str, state: str, run_at: str, ready_at: str) -> None:
    conn.execute(
        f"""insert into wakeful.job (id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at, created_at,
            updated_at, correlation_id, payload)
        select wakeful.new_id(), 'default', %s, {state}, 0, 5, false, {run_at}, {ready_at}, now(), now(),
            gen_random_uuid(), jsonb_build_object('n', n)
        from generate_series(1, %s) n""".encode(),
        [task, jobs],
    )
