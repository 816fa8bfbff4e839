"""The script of a claim: look, and if there is nothing, sleep until there is a reason to look again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from wakeful.queue.claimed import ClaimedJob
from wakeful.queue.presence import Presence
from wakeful.queue.room import Names, Wants
from wakeful.queue.script import Script, Sleep, Take
from wakeful.statements.loops import Declaration, Found, claim_any
from wakeful.statements.settle import settle
from wakeful.statements.statement import Statement
from wakeful.values.duration import DurationLike, duration, nonnegative_duration
from wakeful.values.errors import InvalidOption
from wakeful.values.names import queue_name, task_name
from wakeful.values.number import whole_number
from wakeful.values.settlement import Ending
from wakeful.values.wording import shown

MOST_JOBS: Final = 10_000
READY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A claim as it was asked for, checked. `wait` None: as long as it takes."""

    wants: Wants
    limit: int
    wait: float | None
    lease: timedelta
    renew: bool


def asked(
    task: object, limit: int, wait: DurationLike | None, lease: DurationLike, queues: object, renew: bool
) -> Asked:
    """Checks what a caller gave; an InvalidOption names what is wrong."""
    span = duration(lease, "lease")
    if span <= timedelta(0):
        raise InvalidOption("lease", f"is {shown(lease)}: give more than zero, such as '5m'.")
    return Asked(
        Wants(_names(queues, "queues", queue_name), _names(task, "task", task_name)),
        whole_number(limit, "limit", 1, MOST_JOBS),
        None if wait is None else nonnegative_duration(wait, "wait").total_seconds(),
        span,
        renew,
    )


def claim(here: Presence, asked: Asked) -> Script[list[ClaimedJob]]:
    """Jobs, `limit` at most; none only when the wait is over."""
    since = time.monotonic()
    found: Found = yield _look(here, asked)
    if not found.jobs and asked.wait != 0:
        found, since = yield from _wait(here, asked, since)
    return here.hold(found.jobs, asked.lease, asked.renew, since)


def _wait(here: Presence, asked: Asked, began: float) -> Script[tuple[Found, float]]:
    room = here.watch.room
    waiter = room.enter(asked.wants)
    try:
        # Subscribe first, look afterwards: what is notified in between is heard.
        yield Sleep(here.watch.attend(), _left(asked, began, READY_SECONDS))
        since = began
        while not room.dismissed:
            since = time.monotonic()
            last = _left(asked, began) == 0
            look = room.begin(waiter, last)
            found: Found = yield _look(here, asked, look.declaration)
            if found.jobs or last:
                room.found(look)
                return found, since
            bell = room.rest(waiter, look, found.due_in, here.watch.poll)
            yield Sleep(bell, _left(asked, began))
        return Found([], None), since
    finally:
        room.leave(waiter)


def _look(here: Presence, asked: Asked, declaration: Declaration | None = None) -> Take:
    statement = claim_any(
        here.worker_id,
        queues=asked.wants.queues,
        tasks=asked.wants.tasks,
        want=asked.limit,
        lease=asked.lease,
        declaration=declaration,
    )

    def give_back(found: Found) -> Statement[Any] | None:
        endings = [Ending(job.id, job.epoch, "released", retry_in=timedelta(0)) for job in found.jobs]
        return settle(here.worker_id, endings) if endings else None

    return Take(statement, give_back)


def _left(asked: Asked, began: float, most: float | None = None) -> float | None:
    """Seconds that are left of the wait, `most` at most; None for as long as it takes."""
    if asked.wait is None:
        return most
    left = max(0.0, asked.wait - (time.monotonic() - began))
    return left if most is None else min(left, most)


def _names(given: Any, field: str, check: Any) -> Names:
    """A name, several, or None for all; a task itself stands for its name."""
    if given is None:
        return None
    if not isinstance(given, str) and hasattr(given, "name"):
        given = given.name
    listed = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not listed:
        raise InvalidOption(field, "names nothing: leave it out for all, or name at least one.")
    return frozenset(check(name, field) for name in listed)
