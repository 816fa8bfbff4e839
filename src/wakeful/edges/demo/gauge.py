"""What the demo reads from the database: how many, how fast, by whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from wakeful.statements.statement import Statement, first_value, nothing


@dataclass(frozen=True, slots=True)
class Counts:
    """Jobs by state, and the effects they left.

    `start_ms`: how long orders of the last seconds waited for their start, the median and the 99th percentile.
    """

    scheduled: int = 0
    ready: int = 0
    running: int = 0
    completed: int = 0
    dead: int = 0
    cancelled: int = 0
    effects: int = 0
    start_ms: tuple[float, float] | None = None

    @property
    def live(self) -> int:
        """Not over yet."""
        return self.scheduled + self.ready + self.running


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker on the list: what it does at this moment."""

    id: UUID
    pid: int
    slots: int
    running: int
    asleep: bool


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: after how many attempts, and why."""

    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class Slots:
    """The jobs of a schedule, their different slots, and how soon after its slot the job in the middle started."""

    jobs: int
    slots: int
    median_ms: float | None

    def told(self) -> str:
        """In a few words."""
        after = "" if self.median_ms is None else f", started {self.median_ms:.1f} ms after their moments"
        return f"{self.slots} slots, {self.jobs} jobs{after}"


@dataclass(frozen=True, slots=True)
class Books:
    """What must add up at the end, and how soon all orders started."""

    completed: int
    dead: int
    cancelled: int
    live: int
    effects: int
    jobs_with_effect: int
    orders: int
    order_jobs: int
    retried: int
    rescued: int
    slots: int
    slot_jobs: int
    start_ms: tuple[float, float] | None = None


_COUNTS: Final = """
select s.scheduled, s.ready, s.running, s.completed, s.dead, s.cancelled, (select count(*) from shop.effect),
    (select percentile_cont(array[0.5, 0.99])
         within group (order by extract(epoch from f.started_at - f.ready_at) * 1000)
     from wakeful.jobs f
     where f.finished_at > wakeful.now() - interval '3 s' and f.task = 'shop.confirm_order' and f.attempt = 1)
from wakeful.stats() s
"""

_WORKERS: Final = """
select id, (details ->> 'pid')::integer, slots, running, asleep from wakeful.workers order by started_at
"""

_BOOKS: Final = """
select count(*) filter (where j.state = 'completed'), count(*) filter (where j.state = 'dead'),
    count(*) filter (where j.state = 'cancelled'), count(*) filter (where j.finished_at is null),
    (select count(*) from shop.effect), (select count(distinct job_id) from shop.effect),
    (select count(*) from shop.orders), count(*) filter (where j.task = 'shop.confirm_order'),
    count(*) filter (where j.task = 'shop.send_mail' and j.attempt > 1 and j.last_error_code is not null),
    count(*) filter (where j.attempts @> '[{"outcome": "crashed"}]'),
    count(distinct j.metadata ->> 'slot'), count(*) filter (where j.metadata ? 'slot'),
    percentile_cont(array[0.5, 0.99]) within group (order by extract(epoch from j.started_at - j.ready_at) * 1000)
        filter (where j.task = 'shop.confirm_order' and j.attempt = 1)
from wakeful.jobs j
"""


def counts() -> Statement[Counts]:
    """The numbers of this moment."""
    return Statement(_COUNTS, {}, lambda rows: _counted(*rows[0]))


def workers() -> Statement[list[WorkerLine]]:
    """The workers on the list, the oldest first."""
    return Statement(_WORKERS, {}, lambda rows: [WorkerLine(*row) for row in rows])


def books() -> Statement[Books]:
    """Everything counted from the jobs themselves."""
    return Statement(_BOOKS, {}, lambda rows: _booked(*rows[0]))


def held_by(worker_id: UUID) -> Statement[list[UUID]]:
    """The jobs that this worker runs, as far as the table knows."""
    return Statement(
        "select id from wakeful.jobs where state = 'running' and worker_id = %(worker_id)s::uuid",
        {"worker_id": worker_id},
        lambda rows: [row[0] for row in rows],
    )


def completed_of(ids: Sequence[UUID]) -> Statement[int]:
    """How many of these are completed."""
    return Statement(
        "select count(*) from wakeful.jobs where id = any (%(ids)s::uuid[]) and state = 'completed'",
        {"ids": list(ids)},
        first_value,
    )


def retried(task: str) -> Statement[int]:
    """How many jobs of a task were completed at a later attempt."""
    return Statement(
        "select count(*) from wakeful.jobs where task = %(task)s::text and state = 'completed' and attempt > 1",
        {"task": task},
        first_value,
    )


def dead_letter(id: UUID) -> Statement[Letter | None]:
    """The dead letter of a job, if it is one."""
    return Statement(
        "select attempt, error_message from wakeful.dead_letters where id = %(id)s::uuid",
        {"id": id},
        lambda rows: Letter(*rows[0]) if rows else None,
    )


def lateness_ms(id: UUID) -> Statement[float | None]:
    """How long after its moment a job was started; None if it was not yet."""
    return Statement(
        "select extract(epoch from started_at - run_at)::float8 * 1000 from wakeful.jobs"
        " where id = %(id)s::uuid and state = 'completed'",
        {"id": id},
        lambda rows: float(rows[0][0]) if rows else None,
    )


def slots(schedule: str) -> Statement[Slots]:
    """What a schedule has made."""
    return Statement(
        "select count(*), count(distinct run_at), percentile_cont(0.5)"
        " within group (order by extract(epoch from started_at - run_at)::float8 * 1000)"
        " from wakeful.jobs where metadata ->> 'schedule' = %(schedule)s::text",
        {"schedule": schedule},
        lambda rows: Slots(*rows[0]),
    )


def breaker_state(name: str) -> Statement[str | None]:
    """How a breaker stands: closed, open or half_open; None while nobody has used it."""
    return Statement(
        "select state from wakeful.breakers where name = %(name)s::text",
        {"name": name},
        lambda rows: str(rows[0][0]) if rows else None,
    )


def failed_attempts(ids: Sequence[UUID]) -> Statement[int]:
    """How many attempts of these jobs ended in an error."""
    return Statement(
        "select coalesce(sum(jsonb_array_length(coalesce(attempts, '[]'))), 0)::integer"
        " from wakeful.jobs where id = any (%(ids)s::uuid[])",
        {"ids": list(ids)},
        first_value,
    )


def switch_payments(works: bool) -> Statement[None]:
    """The payment service goes down, or is back."""
    return Statement("update shop.payments set works = %(works)s::boolean", {"works": works}, nothing)


def mend_endpoint() -> Statement[None]:
    """The webhook's receiver works from here on."""
    return Statement("update shop.endpoint set works = true", {}, nothing)


def _counted(*found: Any) -> Counts:
    *numbers, start_ms = found
    return replace(Counts(*numbers), start_ms=_pair(start_ms))


def _booked(*found: Any) -> Books:
    *numbers, start_ms = found
    return replace(Books(*numbers), start_ms=_pair(start_ms))


def _pair(found: Sequence[float] | None) -> tuple[float, float] | None:
    return None if found is None else (float(found[0]), float(found[1]))
