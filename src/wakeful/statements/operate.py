"""What a person does to jobs, dead letters, queues and tasks. `actor` None: the database's user is noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from wakeful.statements.statement import Row, Statement, first_value, nothing

T = TypeVar("T")


def cancel(ids: Sequence[UUID], reason: str | None, actor: str | None) -> Statement[dict[UUID, str]]:
    """Cancel jobs. The answer to each: cancelled, requested (it runs, and is told), busy, over or unknown."""
    return Statement(
        "select id, answer from wakeful.cancel_many(%(ids)s::uuid[], %(reason)s::text, %(actor)s::text)",
        {"ids": list(ids), "reason": reason, "actor": actor},
        _pairs,
    )


def retry_now(id: UUID, actor: str | None) -> Statement[bool]:
    """Make a scheduled job ready; False when it is ready or running. JobNotFound unless it is live."""
    return Statement("select wakeful.retry_now(%(id)s::uuid, %(actor)s::text)", {"id": id, "actor": actor}, first_value)


def requeue(ids: Sequence[UUID], actor: str | None) -> Statement[dict[UUID, UUID]]:
    """Make new jobs of finished or dead ones; the answer is which job stands for which."""
    return Statement(
        "select i.id, wakeful.requeue(i.id, %(actor)s::text) from unnest(%(ids)s::uuid[]) i(id)",
        {"ids": list(ids), "actor": actor},
        _pairs,
    )


def requeued(actor: str | None) -> Callable[[Sequence[UUID]], Statement[int]]:
    """As `requeue`; the answer is how many were put back."""
    return lambda ids: _counted(requeue(ids, actor), len)


def hurried(actor: str | None) -> Callable[[Sequence[UUID]], Statement[int]]:
    """As `retry_now`, for many; the answer is how many were made ready."""
    return lambda ids: Statement(
        "select count(*) from unnest(%(ids)s::uuid[]) i(id) where wakeful.retry_now(i.id, %(actor)s::text)",
        {"ids": list(ids), "actor": actor},
        first_value,
    )


def buried(reason: str, actor: str | None) -> Callable[[Sequence[UUID]], Statement[int]]:
    """As `bury`, for many; the answer is how many."""
    return lambda ids: Statement(
        "select wakeful.bury(i.id, %(reason)s::text, %(actor)s::text) from unnest(%(ids)s::uuid[]) i(id)",
        {"ids": list(ids), "reason": reason, "actor": actor},
        len,
    )


def acknowledged(actor: str | None) -> Callable[[Sequence[UUID]], Statement[int]]:
    """As `acknowledge`; the answer is how many were not yet."""
    return lambda ids: _counted(acknowledge(ids, actor), lambda answers: sum(answers.values()))


def _counted(statement: Statement[T], count: Callable[[T], int]) -> Statement[int]:
    return Statement(statement.sql, statement.params, lambda rows: count(statement.decode(rows)))


def bury(id: UUID, reason: str, actor: str | None) -> Statement[None]:
    """Move a waiting job to the dead letters."""
    return Statement(
        "select wakeful.bury(%(id)s::uuid, %(reason)s::text, %(actor)s::text)",
        {"id": id, "reason": reason, "actor": actor},
        nothing,
    )


def acknowledge(ids: Sequence[UUID], actor: str | None) -> Statement[dict[UUID, bool]]:
    """Mark dead letters as seen; False for those that were already."""
    return Statement(
        "select i.id, wakeful.acknowledge(i.id, %(actor)s::text) from unnest(%(ids)s::uuid[]) i(id)",
        {"ids": list(ids), "actor": actor},
        _pairs,
    )


def purge(ids: Sequence[UUID], actor: str | None) -> Statement[int]:
    """Remove dead letters for good; the answer is how many there were."""
    return Statement(
        "select wakeful.purge(%(ids)s::uuid[], %(actor)s::text)",
        {"ids": list(ids), "actor": actor},
        first_value,
    )


def cleanup(state: str, keep: timedelta, most: int, actor: str | None) -> Statement[int]:
    """Remove up to `most` jobs that are in this final state for longer than `keep`.

    A dead one goes only once it is acknowledged.
    """
    return Statement(
        "select wakeful.cleanup(%(state)s::text, %(keep)s::interval, %(most)s::integer, %(actor)s::text)",
        {"state": state, "keep": keep, "most": most, "actor": actor},
        first_value,
    )


_STEER = {
    ("queue", True): "select wakeful.pause_queue(%(name)s::text, %(actor)s::text, %(reason)s::text)",
    ("queue", False): "select wakeful.resume_queue(%(name)s::text, %(actor)s::text, %(reason)s::text)",
    ("task", True): "select wakeful.pause_task(%(name)s::text, %(actor)s::text, %(reason)s::text)",
    ("task", False): "select wakeful.resume_task(%(name)s::text, %(actor)s::text, %(reason)s::text)",
}


def pause_queue(name: str, actor: str | None, reason: str | None) -> Statement[None]:
    """Nothing of this queue is started until it is resumed."""
    return _steer("queue", True, name, actor, reason)


def resume_queue(name: str, actor: str | None, reason: str | None) -> Statement[None]:
    """Take the pause back, and wake everyone."""
    return _steer("queue", False, name, actor, reason)


def pause_task(name: str, actor: str | None, reason: str | None) -> Statement[None]:
    """No job of this task is started until it is resumed."""
    return _steer("task", True, name, actor, reason)


def resume_task(name: str, actor: str | None, reason: str | None) -> Statement[None]:
    """Take the pause back, and wake everyone."""
    return _steer("task", False, name, actor, reason)


def _steer(kind: str, pause: bool, name: str, actor: str | None, reason: str | None) -> Statement[None]:
    return Statement(_STEER[kind, pause], {"name": name, "actor": actor, "reason": reason}, nothing)


def _pairs(rows: Sequence[Row]) -> dict[UUID, Any]:
    return {row[0]: row[1] for row in rows}
