"""Claiming for other people's loops: jobs with leases of their own, callers who sleep until poked."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from wakeful.statements.claim import JOB_COLUMNS
from wakeful.statements.fleet import channel_of
from wakeful.statements.statement import Row, Statement, nothing
from wakeful.values.job import Job, in_line


@dataclass(frozen=True, slots=True)
class Declaration:
    """That a process waits for pokes on `queues` (None: all) for `lasts`; zero takes an earlier one back.

    It is taken back as well when the claim finds something and no `others` of the process wait on.
    """

    lasts: timedelta
    queues: Collection[str] | None = None
    others: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs, in line order, and the seconds until there is something to look for again, if known."""

    jobs: list[Job]
    due_in: float | None


_CLAIM = f"""select {JOB_COLUMNS}, due_in
from wakeful.claim_any_1(%(worker_id)s::uuid, %(queues)s::text[], %(tasks)s::text[], %(want)s::integer,
 %(lease)s::interval, %(sleeps_for)s::interval, %(sleep_queues)s::text[], %(others)s::boolean,
 %(pass_on)s::boolean)
"""


def claim_any(
    worker_id: UUID,
    *,
    queues: Collection[str] | None,
    tasks: Collection[str] | None,
    want: int,
    lease: timedelta,
    declaration: Declaration | None = None,
) -> Statement[Found]:
    """Take up to `want` jobs of these queues and tasks, None standing for all."""
    params = {
        "worker_id": worker_id,
        "queues": _listed(queues),
        "tasks": _listed(tasks),
        "want": want,
        "lease": lease,
        "sleeps_for": declaration and declaration.lasts,
        "sleep_queues": declaration and _listed(declaration.queues),
        "others": declaration is not None and declaration.others,
        "pass_on": declaration is not None,
    }

    def decode(rows: Sequence[Row]) -> Found:
        jobs = [Job._make((*row[:19], worker_id)) for row in rows if row[0] is not None]
        return Found(sorted(jobs, key=in_line), rows[-1][19])

    return Statement(_CLAIM, params, decode)


def wake(worker_id: UUID) -> Statement[None]:
    """Take the process's declaration back."""
    return Statement("select wakeful.wake_1(%(worker_id)s::uuid)", {"worker_id": worker_id}, nothing)


def canary(worker_id: UUID, number: int) -> Statement[None]:
    """Call to one's own listener, from another connection."""
    return Statement(
        "select pg_catalog.pg_notify(%(channel)s::text, %(call)s::text)",
        {"channel": channel_of(worker_id), "call": json.dumps({"canary": number})},
        nothing,
    )


def _listed(names: Collection[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)
