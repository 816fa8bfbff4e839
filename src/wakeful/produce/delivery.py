"""What to send, and what to make of the answer. Pure: threads and event loops drive it alike.

A delivery is a generator. It yields what is to be done and is sent the outcome, or thrown the error. Ids are
the client's own, so what was left unanswered is sent again with the same ids, and makes one job.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from wakeful.database.session import Unanswered
from wakeful.statements.enqueue import enqueue, reach_disk
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable, Refused, SchemaMismatch
from wakeful.values.job import JobId, NewJob

T = TypeVar("T")

Done = list[JobId | None]
Answer = JobId | Exception | None

SENDS: Final = 4
ROWS_IN_A_STATEMENT: Final = 5000
_PAYLOAD_IN_A_STATEMENT: Final = 16 * 1024 * 1024
_FIRST_PAUSE_SECONDS: Final = 0.05

# Inserted ahead of the disk just now; or found there, sent by an enqueue that may have been cut off before the disk.
_MAYBE_NOT_ON_DISK: Final = frozenset({"ahead", "resent"})

# Not the row's fault: transaction state, missing objects and rights, resources, locks, operators, the system.
_WHOLE_SET: Final = frozenset({"25", "28", "42", "53", "55", "57", "58", "XX"})


class Ask(NamedTuple):
    """A job to enqueue. `fresh`: its id was made for this call; `sent`: it may be in the database already."""

    job: NewJob
    fresh: bool
    sent: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Run it and commit; the outcome is its answer."""

    statement: Statement[Done | bool]


@dataclass(frozen=True, slots=True)
class SendTogether:
    """Run these in one transaction; the outcome is the list of their answers."""

    statements: Iterable[Statement[Done]]


@dataclass(frozen=True, slots=True)
class Pause:
    """Let this time pass."""

    seconds: float


Step = Send | SendTogether | Pause
Delivery = Generator[Step, Any, T]


def deliver_apart(asks: Sequence[Ask], poke: bool) -> Delivery[list[Answer]]:
    """Together as long as that works; a row that cannot be stored fails alone, with its own error."""
    try:
        done = yield from _sent(lambda first: _alone(asks, first, poke))
    except Exception as error:  # Any error at all is an answer for someone.
        if len(asks) == 1:
            return [error]
        if _concerns_all(error):
            return [_own_copy(error) for _ in asks]
        half = len(asks) // 2
        first_half = yield from deliver_apart(asks[:half], poke)
        return first_half + (yield from deliver_apart(asks[half:], poke))
    return [_as_asked(ask, id) for ask, id in zip(asks, done, strict=True)]


def deliver_together(asks: Iterable[Ask], poke: bool) -> Delivery[Done]:
    """All in one transaction, or none. Asks are drawn when their turn comes, so that their ids are fresh."""
    source = iter(asks)
    drawn = [chunk for chunk in (_next_chunk(source), _next_chunk(source)) if chunk]

    def statements(first: bool) -> Iterator[Statement[Done]]:
        yield from (_statement(chunk, first, poke) for chunk in drawn)
        while chunk := _next_chunk(source):
            drawn.append(chunk)
            yield _statement(chunk, first, poke)

    answers: list[Done] = []
    if len(drawn) == 1:
        answers = [(yield from _sent(lambda first: _alone(drawn[0], first, poke)))]
    elif drawn:
        answers = yield from _sent(lambda first: _together(statements(first)))
    asked = chain.from_iterable(drawn)
    return [_as_asked(ask, id) for ask, id in zip(asked, chain.from_iterable(answers), strict=True)]


def _next_chunk(source: Iterator[Ask]) -> list[Ask]:
    chunk: list[Ask] = []
    room = _PAYLOAD_IN_A_STATEMENT
    while len(chunk) < ROWS_IN_A_STATEMENT and room > 0 and (ask := next(source, None)):
        chunk.append(ask)
        room -= len(ask.job.payload)
    return chunk


def _alone(asks: Sequence[Ask], first: bool, poke: bool) -> Delivery[Done]:
    """In a transaction of its own. What woke a worker ahead of the disk is waited for there, or sent again whole."""
    done: Done = yield Send(_statement(asks, first, poke, alone=True))
    doubtful = [id for id in done if id is not None and id.action in _MAYBE_NOT_ON_DISK]
    if doubtful and not (yield Send(reach_disk(doubtful))):
        raise Unanswered("The server went away before the job had reached its disk. Try again.")
    return done


def _together(statements: Iterable[Statement[Done]]) -> Delivery[list[Done]]:
    answers: list[Done] = yield SendTogether(statements)
    return answers


def _sent(send: Callable[[bool], Delivery[T]]) -> Delivery[T]:
    """Sends until there is an answer, a few times. `send` is told whether this is the first time."""
    for attempt in range(SENDS):
        try:
            return (yield from send(attempt == 0))
        except Exception as error:  # What else there is, the caller judges.
            if attempt == SENDS - 1 or not _may_pass(error):
                raise
        # Spread out: whatever cut us off cut off others too.
        yield Pause(_FIRST_PAUSE_SECONDS * 2**attempt * (0.5 + random.random()))
    raise AssertionError("the last attempt returns or raises")


def _statement(asks: Sequence[Ask], first: bool, poke: bool, *, alone: bool = False) -> Statement[Done]:
    fresh = first and all(ask.fresh and not ask.sent for ask in asks)
    return enqueue([ask.job for ask in asks], fresh=fresh, poke=poke, alone=alone)


def _as_asked(ask: Ask, id: JobId | None) -> JobId | None:
    # Found there already, but nobody else had the id: the lost answer was a yes.
    if id is not None and (id.action == "ahead" or (id.action == "resent" and ask.fresh)):
        return JobId(id, "inserted")
    return id


def _may_pass(error: Exception) -> bool:
    """Whether the same may work in a moment: the connection was lost, or the transaction fell to another."""
    return isinstance(error, Unanswered) or _sqlstate(error)[:2] == "40"


def _concerns_all(error: Exception) -> bool:
    whole = isinstance(error, DatabaseUnavailable | Refused | SchemaMismatch)
    return whole or _sqlstate(error)[:2] in _WHOLE_SET


def _sqlstate(error: Exception) -> str:
    return getattr(error, "sqlstate", None) or ""


def _own_copy(error: Exception) -> Exception:
    """Each caller raises its own: a traceback grows wherever an error is raised."""
    try:
        made = copy.copy(error)
    except TypeError:
        return error
    made.__cause__ = error.__cause__
    return made
