"""Reading jobs: by id, by page, in numbers. Nothing here locks, and nothing counts history."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from wakeful.statements.statement import Row, Statement
from wakeful.values.job import JobReport
from wakeful.values.moment import EARLIEST, LATEST
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

    def of(self, states: Sequence[str]) -> JobFilter:
        """The same, in these states."""
        return replace(self, states=states)

    def params(self) -> dict[str, object]:
        """As parameters of a statement."""
        return {**asdict(self), "states": None if self.states is None else list(self.states)}


class Search(NamedTuple):
    """What a search has found, and the id behind which to go on where its time was over; None: it came to its end."""

    ids: tuple[UUID, ...]
    reached: UUID | None


def readable(column: str) -> str:
    """A column of moments: one that no calendar has is told as the nearest that it has, and breaks no list."""
    first, last = f"'{EARLIEST}'::timestamptz", f"'{LATEST}'::timestamptz"
    return f"case when {column} < {first} then {first} when {column} > {last} then {last} else {column} end"


# Those that someone else may have said: an option, an imported row, or a lease.
_RUN_AT = readable("run_at")
_CREATED_AT = readable("created_at")
_UPDATED_AT = readable("updated_at")
_STARTED_AT = readable("started_at")
_FINISHED_AT = readable("finished_at")
_LEASE_EXPIRES_AT = readable("lease_expires_at")
_LAST_ERROR_AT = readable("last_error_at")
_EXPIRES_AT = readable("expires_at")

_COLUMNS = f"""select id, task, queue, state, priority, payload::text, result::text, attempt, max_attempts,
 epoch, {_RUN_AT}, {_CREATED_AT}, {_UPDATED_AT}, {_STARTED_AT}, {_FINISHED_AT}, worker_id, {_LEASE_EXPIRES_AT},
 last_error_code, last_error_message, {_LAST_ERROR_AT}, correlation_id, parent_id, created_by, tenant, dedup_key,
 ready_at, {_EXPIRES_AT}, metadata::text, attempts::text, cancel_requested_at, cancel_reason, origin_id,
 requeued_as"""

_ONE = f"""{_COLUMNS}
from wakeful.jobs where id = %(id)s::uuid"""

_MEANT = """%(states)s::text[], %(task)s::text, %(queue)s::text, %(tenant)s::text,
 %(correlation_id)s::uuid, %(error)s::text, %(payload)s::jsonb, %(since)s::timestamptz,
 %(before)s::timestamptz, %(younger)s::interval, %(older)s::interval, %(after)s::uuid, %(limit)s::integer"""

_PAGE = f"""{_COLUMNS}
from wakeful.find_jobs({_MEANT})"""

_SEARCH = f"select ids, reached from wakeful.search_jobs({_MEANT}, %(patience)s::interval)"

_THESE = f"""{_COLUMNS}
from wakeful.jobs where id = any (%(ids)s::uuid[]) order by id desc"""


def jobs(wanted: JobFilter, *, limit: int, after: UUID | None = None) -> Statement[list[JobReport]]:
    """A page of jobs, the newest ids first; `after` is the last id of the page before."""
    return Statement(_PAGE, {**wanted.params(), "limit": limit, "after": after}, _reports)


def search(
    wanted: JobFilter, *, limit: int, after: UUID | None = None, patience: timedelta | None = None
) -> Statement[Search]:
    """The ids of a page of jobs, the newest first, looked for no longer than `patience`."""
    params = {**wanted.params(), "limit": limit, "after": after, "patience": patience}
    return Statement(_SEARCH, params, lambda rows: Search(tuple(rows[0][0]), rows[0][1]))


def ids_of(wanted: JobFilter) -> Callable[[int, UUID | None], Statement[Sequence[UUID]]]:
    """Pages of the ids of all that are meant: so many, behind this one."""

    def page(limit: int, after: UUID | None) -> Statement[Sequence[UUID]]:
        params = {**wanted.params(), "limit": limit, "after": after, "patience": None}
        return Statement(_SEARCH, params, lambda rows: tuple(rows[0][0]))

    return page


def these(ids: Sequence[UUID]) -> Statement[list[JobReport]]:
    """The jobs with these ids, the newest ids first."""
    return Statement(_THESE, {"ids": list(ids)}, _reports)


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
