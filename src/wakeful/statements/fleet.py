"""The fleet: a worker comes, beats, goes, and keeps house."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from wakeful.statements.statement import Statement, nothing

BROADCAST = "wakeful"


def channel_of(worker_id: UUID) -> str:
    """The channel on which a worker alone is poked."""
    return f"{BROADCAST}_{worker_id.hex}"


def register(
    worker_id: UUID,
    name: str,
    queues: Sequence[str] | None,
    tasks: Sequence[str],
    slots: int,
    lease: timedelta,
    details: str,
) -> Statement[None]:
    """Put the worker on the list, with a lease that covers all its jobs. `queues` None: all of them."""
    return Statement(
        "select wakeful.register_1(%(worker_id)s::uuid, %(name)s::text, %(queues)s::text[], %(tasks)s::text[],"
        " %(slots)s::integer, %(lease)s::interval, %(details)s::jsonb)",
        {
            "worker_id": worker_id,
            "name": name,
            "queues": None if queues is None else list(queues),
            "tasks": list(tasks),
            "slots": slots,
            "lease": lease,
            "details": details,
        },
        lambda _: None,
    )


def attend(worker_id: UUID, channel: str) -> Statement[None]:
    """What a listener's session runs once: jobs can be handed over on this channel for as long as it lives."""
    return Statement(
        "select wakeful.attend_1(%(worker_id)s::uuid, %(channel)s::text)",
        {"worker_id": worker_id, "channel": channel},
        nothing,
    )


def beat(worker_id: UUID, lease: timedelta) -> Statement[bool]:
    """Renew the worker's lease; False when it has lapsed."""
    return Statement(
        "select wakeful.beat_1(%(worker_id)s::uuid, %(lease)s::interval)",
        {"worker_id": worker_id, "lease": lease},
        lambda rows: bool(rows[0][0]),
    )


def tell(worker_id: UUID, details: Mapping[str, object]) -> Statement[None]:
    """Lay this over what the worker told of itself before."""
    return Statement(
        "select wakeful.tell_1(%(worker_id)s::uuid, %(details)s::jsonb)",
        {"worker_id": worker_id, "details": json.dumps(details)},
        lambda _: None,
    )


def held(worker_id: UUID) -> Statement[list[tuple[UUID, int]]]:
    """The claims that the worker holds, by id and epoch: asked when the answer to a claim was lost."""
    return Statement(
        "select id, epoch from wakeful.held_1(%(worker_id)s::uuid)",
        {"worker_id": worker_id},
        lambda rows: [(id, epoch) for id, epoch in rows],
    )


def leave(worker_id: UUID) -> Statement[int]:
    """Take the worker off the list; what it still holds is released. The answer is how many that were."""
    return Statement(
        "select wakeful.leave_1(%(worker_id)s::uuid)", {"worker_id": worker_id}, lambda rows: int(rows[0][0])
    )


def upkeep(keep: timedelta | None) -> Statement[None]:
    """Make and drop days of history, fold the counts. `keep` None: drop nothing."""
    return Statement("select wakeful.upkeep_1(%(keep)s::interval)", {"keep": keep}, lambda _: None)
