"""Reading jobs: by id, by page, in numbers. Nothing here locks, and nothing counts history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from wakeful.statements.statement import Row, Statement
from wakeful.values.job import JobReport
from wakeful.values.report import Stats


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; None asks for nothing. `payload` is JSON text that the job's payload contains.

    `error` is an error's code, or part of its message. `since` and `before` are moments, `younger` and
    `older` ages, all of the job's creation.
    """

    states: Sequence[str] | None = None
    task: str | None = None
    queue: str | None = None
    tenant: str | None = None
    correlation_id: UUID | None = None
    error: str | None = None
    payload: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    younger: timedelta | None = None
    older: timedelta | None = None

    def params(self) -> dict[str, object]:
        """As parameters of a statement."""
        return {**asdict(self), "states": None if self.states is None else list(self.states)}


_COLUMNS = """select id, task, queue, state, priority, payload::text, result::text, attempt, max_attempts,
 epoch, run_at, created_at, updated_at, started_at, finished_at, worker_id, lease_expires_at, last_error_code,
 last_error_message, last_error_at, correlation_id, parent_id, created_by, tenant, dedup_key, ready_at,
 expires_at, metadata::text, attempts::text, cancel_requested_at, cancel_reason, origin_id, requeued_as"""

_ONE = f"""{_COLUMNS}
from wakeful.jobs where id = %(id)s::uuid"""

_PAGE = f"""{_COLUMNS}
from wakeful.find_jobs(%(states)s::text[], %(task)s::text, %(queue)s::text, %(tenant)s::text,
 %(correlation_id)s::uuid, %(error)s::text, %(payload)s::jsonb, %(since)s::timestamptz,
 %(before)s::timestamptz, %(younger)s::interval, %(older)s::interval, %(after)s::uuid, %(limit)s::integer)"""


def jobs(wanted: JobFilter, *, limit: int, after: UUID | None = None) -> Statement[list[JobReport]]:
    """A page of jobs, the newest ids first; `after` is the last id of the page before."""
    return Statement(_PAGE, {**wanted.params(), "limit": limit, "after": after}, _reports)


def job(id: UUID) -> Statement[JobReport | None]:
    """One job, in whichever state it is."""
    return Statement(_ONE, {"id": id}, lambda rows: next(iter(_reports(rows)), None))


def stats(task: str | None = None) -> Statement[Stats]:
    """How many jobs are in each state, of one task or of all."""
    return Statement(
        "select scheduled, ready, running, completed, dead, cancelled from wakeful.stats(%(task)s::text)",
        {"task": task},
        lambda rows: Stats(*rows[0]),
    )


def decoded(text: str | None) -> Any:
    """The value of a JSON text, None for none."""
    return None if text is None else json.loads(text)


def _reports(rows: Sequence[Row]) -> list[JobReport]:
    return [_report(row) for row in rows]


def _report(row: Row) -> JobReport:
    values = dict(zip(JobReport.__dataclass_fields__, row, strict=True))
    attempts: list[Mapping[str, Any]] = decoded(values["attempts"]) or []
    read = {name: decoded(values[name]) for name in ("payload", "result", "metadata")}
    return JobReport(**{**values, **read, "attempts": tuple(attempts)})
