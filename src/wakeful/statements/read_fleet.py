"""Reading what is around the jobs: dead letters, queues, switches, workers."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from wakeful.statements.read import JobFilter, decoded, readable
from wakeful.statements.statement import Row, Statement, first_value
from wakeful.values.report import DeadLetter, QueueReport, TaskSwitch, WorkerReport

_DIED_AT = readable("died_at")
_LETTER = f"""select id, task, queue, tenant, correlation_id, error_code, error_message, error_details::text,
 {_DIED_AT}, acknowledged, acknowledged_by, acknowledged_at, requeued_as, requeued_at, attempt,
 original_job::text
from wakeful.dead_letters"""

# `since` and its kin are about the death here, not the creation.
_FILTER = """where (%(acknowledged)s::boolean is null or acknowledged = %(acknowledged)s::boolean)
  and (%(task)s::text is null or task = %(task)s::text)
  and (%(queue)s::text is null or queue = %(queue)s::text)
  and (%(tenant)s::text is null or tenant = %(tenant)s::text)
  and (%(correlation_id)s::uuid is null or correlation_id = %(correlation_id)s::uuid)
  and (%(error)s::text is null or error_code = %(error)s::text
       or strpos(lower(error_message), lower(%(error)s::text)) > 0)
  and (%(payload)s::jsonb is null or payload @> %(payload)s::jsonb)
  and (%(since)s::timestamptz is null or died_at >= %(since)s::timestamptz)
  and (%(before)s::timestamptz is null or died_at < %(before)s::timestamptz)
  and (%(younger)s::interval is null or died_at >= (select wakeful.now() - %(younger)s::interval))
  and (%(older)s::interval is null or died_at < (select wakeful.now() - %(older)s::interval))
  and (%(after)s::uuid is null or id < %(after)s::uuid)"""

_PAGE = f"""{_LETTER}
{_FILTER}
order by id desc
limit %(limit)s::integer"""

_IDS = f"""select id from wakeful.dead_letters
{_FILTER}
order by id desc
limit %(limit)s::integer"""

_COUNT = f"""select count(*) from wakeful.dead_letters
{_FILTER}"""

_ONE = f"""{_LETTER}
where id = %(id)s::uuid"""

_QUEUES = """
select queue, scheduled, ready, running, oldest_ready_at, paused, changed_by, changed_at, reason
from wakeful.queues order by queue
"""

_SWITCHES = """
select name, paused, enqueuing, changed_by, changed_at, reason from wakeful.controls
where kind = 'task' and (paused or enqueuing is not null) order by name
"""

_LEASE_EXPIRES_AT = readable("lease_expires_at")
_WORKERS = f"""
select id, name, queues, tasks, slots, running, alive, asleep, started_at, beat_at, {_LEASE_EXPIRES_AT},
 details::text
from wakeful.workers order by alive desc, started_at, id
"""


_NAMES = {
    "queue": """
select queue from wakeful.queues where scheduled + ready + running > 0
union select unnest(queues) from wakeful.workers
union select name from wakeful.policies where kind = 'queue'
union select queue from wakeful.schedules where queue is not null
""",
    "task": """
select unnest(tasks) from wakeful.workers
union select name from wakeful.policies where kind = 'task'
union select task from wakeful.schedules
""",
}

_PAUSED = "select true from wakeful.controls where kind = %(kind)s::text and name = %(name)s::text and paused"


def dead_letters(
    wanted: JobFilter, *, acknowledged: bool | None, limit: int, after: UUID | None = None
) -> Statement[list[DeadLetter]]:
    """A page of dead letters, the newest ids first. `acknowledged` None: seen or not."""
    params = {**wanted.params(), "acknowledged": acknowledged, "limit": limit, "after": after}
    return Statement(_PAGE, params, _letters)


def dead_letter_page(
    wanted: JobFilter, *, acknowledged: bool | None, limit: int, after: UUID | None
) -> Statement[list[UUID]]:
    """The ids of the next so many dead letters that are meant, to act on them, the newest first."""
    params = {**wanted.params(), "acknowledged": acknowledged, "limit": limit, "after": after}
    return Statement(_IDS, params, lambda rows: [id for (id,) in rows])


def dead_letter_count(wanted: JobFilter, *, acknowledged: bool | None) -> Statement[int]:
    """How many dead letters are meant."""
    return Statement(_COUNT, {**wanted.params(), "acknowledged": acknowledged, "after": None}, first_value)


def dead_letter(id: UUID) -> Statement[DeadLetter | None]:
    """One dead letter."""
    return Statement(_ONE, {"id": id}, lambda rows: next(iter(_letters(rows)), None))


def queues() -> Statement[list[QueueReport]]:
    """All queues that have live jobs, or that someone has steered."""
    return Statement(_QUEUES, {}, lambda rows: [QueueReport(*row) for row in rows])


def task_switches() -> Statement[list[TaskSwitch]]:
    """The tasks that are paused, or whose enqueuing was switched."""
    return Statement(_SWITCHES, {}, lambda rows: [TaskSwitch(*row) for row in rows])


def is_paused(kind: str, name: str) -> Statement[bool]:
    """Whether this queue or task is paused."""
    return Statement(_PAUSED, {"kind": kind, "name": name}, bool)


def names(kind: str) -> Statement[list[str]]:
    """The queues that have live jobs, or the tasks of workers; in both cases those of policies and schedules too."""
    return Statement(_NAMES[kind], {}, lambda rows: [name for (name,) in rows])


def workers() -> Statement[list[WorkerReport]]:
    """The workers on the list, those alive first."""
    return Statement(_WORKERS, {}, _worker_reports)


def _letters(rows: Sequence[Row]) -> list[DeadLetter]:
    return [DeadLetter(*(*row[:7], decoded(row[7]), *row[8:15], decoded(row[15]))) for row in rows]


def _worker_reports(rows: Sequence[Row]) -> list[WorkerReport]:
    return [
        WorkerReport(*(*row[:2], row[2] and tuple(row[2]), tuple(row[3]), *row[4:11], decoded(row[11]))) for row in rows
    ]
