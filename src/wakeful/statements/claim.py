"""Claiming: alone, together with settling what is done (a turn), or with the beat (a pulse)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Literal
from uuid import UUID

from wakeful.statements.arrays import array_of
from wakeful.statements.schedules import due_schedules
from wakeful.statements.statement import Row, Statement
from wakeful.values.job import Job
from wakeful.values.schedule import DueSchedule
from wakeful.values.settlement import Completion
from wakeful.values.wakeup import ClaimReport, Position

Sleeps = Literal["all", "these"]


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a worker asks for: `queues[i]` belongs to lane `lanes[i]` (from 1), which has `limits[lane − 1]` slots.

    `free` says how many of those are free now: what is limited is not held ready behind busy ones. None: all.
    `poked` is the job that a poke named, with which a brief claim begins. `takes`: the channel on which jobs may be
    handed to it while it sleeps.
    """

    worker_id: UUID
    queues: Sequence[str]
    lanes: Sequence[int]
    limits: Sequence[int]
    tasks: Sequence[str]
    horizon: Sequence[Position | None] | None = None
    lease: timedelta | None = None
    tend: bool = True
    sleeps: Sleeps | None = None
    pass_on: bool = False
    alone: bool = False
    brief: bool = False
    free: Sequence[int] | None = None
    poked: UUID | None = None
    takes: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """The jobs, in line order within their lane, and the report."""

    jobs: list[Job]
    report: ClaimReport


# In the order of Job's fields. Ids and times as bytes: a driver that makes objects of them takes six times as long.
JOB_COLUMNS = """pg_catalog.uuid_send(id), task, queue, payload::text, attempt, max_attempts, epoch, rank,
 pg_catalog.timestamptz_send(ready_at), pg_catalog.timestamptz_send(created_at),
 pg_catalog.timestamptz_send(started_at),
 pg_catalog.uuid_send(correlation_id), pg_catalog.uuid_send(parent_id), pg_catalog.uuid_send(origin_id),
 tenant, created_by, metadata::text, attempts::text, saved::text"""

_COLUMNS = f"select {JOB_COLUMNS}, due_in, suspects, cancelled, refused, schedules::text, held_back"

_HORIZON = "%(h_ranks)s::smallint[], %(h_ready_ats)s::timestamptz[], %(h_ids)s::uuid[]"

_ASK = f"""{_COLUMNS}
from wakeful.claim_1(%(worker_id)s::uuid, %(queues)s::text[], %(lanes)s::integer[], %(limits)s::integer[],
 %(tasks)s::text[], %(lease)s::interval, {_HORIZON},
 %(tend)s::boolean, %(sleeps)s::text, %(pass_on)s::boolean, %(alone)s::boolean"""

_CLAIM = f"{_ASK}, brief => %(brief)s::boolean, free => %(free)s::integer[], takes => %(takes)s::text)"

_CLAIM_POKED = f"""{_COLUMNS}
from wakeful.claim_poked_1(%(worker_id)s::uuid, %(poked)s::uuid, %(queues)s::text[], %(lanes)s::integer[],
 %(limits)s::integer[], %(tasks)s::text[], %(sleeps)s::text, %(pass_on)s::boolean, %(free)s::integer[])"""

_TURN = f"""{_ASK}, %(done_ids)s::uuid[], %(done_epochs)s::bigint[], %(done_results)s::text[],
 free => %(free)s::integer[], takes => %(takes)s::text)"""

_PULSE = f"""{_COLUMNS}
from wakeful.pulse_1(%(worker_id)s::uuid, %(beat)s::interval, %(canary)s::bigint, %(queues)s::text[],
 %(lanes)s::integer[], %(limits)s::integer[], %(tasks)s::text[], %(every_lane)s::integer, %(sleeps)s::text,
 %(free)s::integer[], %(takes)s::text)"""


def claim(request: ClaimRequest) -> Statement[Claimed]:
    """Take ready jobs."""
    if request.poked is not None:
        return Statement(_CLAIM_POKED, _asked_for_one(request, request.poked), _decoder(request.worker_id))
    return Statement(_CLAIM, _asked(request), _decoder(request.worker_id))


def turn(request: ClaimRequest, done: Sequence[Completion]) -> Statement[Claimed]:
    """Complete jobs and take the next, in one commit. A failed turn has done neither."""
    return Statement(_TURN, {**_asked(request), **completions(done)}, _decoder(request.worker_id))


def pulse(request: ClaimRequest, beat: timedelta, canary: int | None, every_lane: int | None) -> Statement[Claimed]:
    """Renew the worker's lease, send the canary, tend, take from the start of the line, ask for cancellations.

    `every_lane` also serves queues that are not named, if jobs of these tasks wait in them.
    """
    params = {
        "worker_id": request.worker_id,
        "beat": beat,
        "canary": canary,
        **_places(request),
        "every_lane": every_lane,
        "sleeps": request.sleeps,
        "takes": request.takes,
    }
    return Statement(_PULSE, params, _decoder(request.worker_id))


_key = itemgetter(0)


def completions(done: Sequence[Completion]) -> dict[str, object]:
    """The arrays that stand for completed jobs, in the order of their ids, in which rows are locked."""
    keys, epochs, results = zip(*sorted(done, key=_key), strict=True)
    return {
        # Written as literals: thousands a second, and the driver takes longer to write a list of them.
        "done_ids": "{" + ",".join([key.hex() for key in keys]) + "}",
        "done_epochs": "{" + ",".join(map(str, epochs)) + "}",
        "done_results": list(results) if results.count(None) < len(results) else None,
    }


def _places(request: ClaimRequest) -> dict[str, object]:
    # Written as literals, nearly always the same: an idle worker starts a job that much sooner.
    return {
        "queues": _literal(tuple(request.queues)),
        "lanes": _literal(tuple(request.lanes)),
        "limits": _literal(tuple(request.limits)),
        "tasks": _literal(tuple(request.tasks)),
        "free": None if request.free is None else _literal(tuple(request.free)),
    }


_literal = lru_cache(maxsize=256)(array_of)


def _asked(request: ClaimRequest) -> dict[str, object]:
    horizon = request.horizon
    bounded = horizon is not None and any(horizon)
    return {
        "worker_id": request.worker_id,
        **_places(request),
        "h_ranks": [p and p.rank for p in horizon] if horizon and bounded else None,
        "h_ready_ats": [p and p.ready_at for p in horizon] if horizon and bounded else None,
        "h_ids": [p and p.id for p in horizon] if horizon and bounded else None,
        "tend": request.tend,
        "sleeps": request.sleeps,
        "pass_on": request.pass_on,
        "lease": request.lease,
        "alone": request.alone,
        "brief": request.brief,
        "takes": request.takes,
    }


def _asked_for_one(request: ClaimRequest, poked: UUID) -> dict[str, object]:
    return {
        "worker_id": request.worker_id,
        "poked": poked,
        **_places(request),
        "sleeps": request.sleeps,
        "pass_on": request.pass_on,
    }


class _decoder:
    """Rows to jobs; the rows without an id are reports, which add up."""

    __slots__ = ("worker_id",)

    def __init__(self, worker_id: UUID) -> None:
        self.worker_id = worker_id

    def __call__(self, rows: Sequence[Row]) -> Claimed:
        worker_id = self.worker_id
        jobs = [Job._make((*row[:19], worker_id)) for row in rows if row[0] is not None]
        due_in, suspects, held_back = None, False, False
        cancelled: tuple[UUID, ...] = ()
        refused: tuple[UUID, ...] = ()
        schedules: tuple[DueSchedule, ...] = ()
        began = None
        for row in reversed(rows):
            if row[0] is not None:
                break
            due_in = row[19] if row[19] is not None else due_in
            suspects = bool(row[20]) or suspects
            cancelled += tuple(row[21] or ())
            refused += tuple(row[22] or ())
            schedules += due_schedules(row[23]) if row[23] else ()
            held_back = bool(row[24]) or held_back
            began = row[10] or began
        return Claimed(jobs, ClaimReport(due_in, suspects, cancelled, refused, schedules, held_back, began))
