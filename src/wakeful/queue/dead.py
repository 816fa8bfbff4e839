"""Dead letters: find them, acknowledge them, put them back, remove them, one by one or all that a filter means."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar, Unpack
from uuid import UUID

from wakeful.database.session import Database
from wakeful.queue.presence import as_id
from wakeful.queue.script import Script, aplay, play
from wakeful.queue.sweep import Act, Refused, Told, keep_to, not_told, portion_size, sweep, together
from wakeful.statements import operate, read_fleet
from wakeful.statements.read import JobFilter
from wakeful.statements.statement import Statement
from wakeful.values.duration import nonnegative_duration
from wakeful.values.errors import InvalidOption, JobNotFound
from wakeful.values.number import real_number
from wakeful.values.report import DeadLetter

T = TypeVar("T")


class LetterFilter(TypedDict, total=False):
    """Which dead letters are meant; what is left out does not matter."""

    task: str | None
    queue: str | None
    tenant: str | None
    error: str | None
    """A code, or a part of the message."""
    correlation_id: UUID | None
    since: datetime | timedelta | float | str | None
    """Died at or after this moment, or no longer ago than this."""
    older_than: datetime | timedelta | float | str | None
    """Died before this moment, or longer ago than this."""


def act_on_all(
    wanted: JobFilter,
    acknowledged: bool | None,
    act: Act,
    *,
    rate: float | None = None,
    told: Told = not_told,
    refused: Refused = not_told,
) -> Script[int]:
    """Do it to all that are meant, `rate` a second at most; the answer is to how many."""

    def page(size: int, after: UUID | None) -> Statement[list[UUID]]:
        return read_fleet.dead_letter_page(wanted, acknowledged=acknowledged, limit=size, after=after)

    return sweep(page, lambda ids: together(ids, act, refused), rate=rate, told=told)


def act_on_ids(
    ids: Iterable[UUID | str], act: Act, refused: Refused = not_told, *, rate: float | None = None
) -> Script[int]:
    """Do it to these, `rate` a second at most; JobNotFound, and nothing done, when one of them is unknown."""
    meant = list(dict.fromkeys(as_id(id) for id in ids))
    for id in meant:
        if (yield read_fleet.dead_letter(id)) is None:
            raise JobNotFound(id, message=f"There is no dead letter {id}. Find it with `wakeful dead list`.")
    began, done, size = time.monotonic(), 0, portion_size(rate)
    for start in range(0, len(meant), size):
        if start:
            yield from keep_to(rate, start, began)
        done += yield from together(meant[start : start + size], act, refused)
    return done


class DeadLetters:
    """Jobs that failed for good. Every act leaves an audit row with its actor (None: the database's user)."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database

    def list(
        self, *, limit: int = 50, acknowledged: bool | None = False, **wanted: Unpack[LetterFilter]
    ) -> list[DeadLetter]:
        """The newest that are meant. `acknowledged` None: seen to or not."""
        return self._database().run(_page(limit, acknowledged, wanted))

    async def alist(
        self, *, limit: int = 50, acknowledged: bool | None = False, **wanted: Unpack[LetterFilter]
    ) -> Sequence[DeadLetter]:
        """As `list`, awaited."""
        return await self._database().arun(_page(limit, acknowledged, wanted))

    def acknowledge(self, *ids: UUID | str, actor: str | None = None, **wanted: Unpack[LetterFilter]) -> int:
        """Mark as seen to, by id or by filter; the answer is how many were not yet."""
        return self._play(_script(ids, wanted, False, operate.acknowledged(actor)))

    async def aacknowledge(self, *ids: UUID | str, actor: str | None = None, **wanted: Unpack[LetterFilter]) -> int:
        """As `acknowledge`, awaited."""
        return await self._aplay(_script(ids, wanted, False, operate.acknowledged(actor)))

    def requeue(
        self, *ids: UUID | str, actor: str | None = None, rate: float | None = None, **wanted: Unpack[LetterFilter]
    ) -> int:
        """Put back as new jobs, `rate` a second at most, by id or by filter; the answer is how many.

        Interrupted, it goes on where it was when it is called again: one that was put back is acknowledged by that.
        """
        return self._play(_script(ids, wanted, False, operate.requeued(actor), rate))

    async def arequeue(
        self, *ids: UUID | str, actor: str | None = None, rate: float | None = None, **wanted: Unpack[LetterFilter]
    ) -> int:
        """As `requeue`, awaited."""
        return await self._aplay(_script(ids, wanted, False, operate.requeued(actor), rate))

    def purge(self, *ids: UUID | str, actor: str | None = None, **wanted: Unpack[LetterFilter]) -> int:
        """Remove for good, by id, or by filter such as were acknowledged; the answer is how many."""
        return self._play(_script(ids, wanted, True, lambda some: operate.purge(some, actor)))

    async def apurge(self, *ids: UUID | str, actor: str | None = None, **wanted: Unpack[LetterFilter]) -> int:
        """As `purge`, awaited."""
        return await self._aplay(_script(ids, wanted, True, lambda some: operate.purge(some, actor)))

    def _play(self, script: Script[T]) -> T:
        return play(self._database(), script)

    async def _aplay(self, script: Script[T]) -> T:
        return await aplay(self._database(), script)


def _page(limit: int, acknowledged: bool | None, wanted: LetterFilter) -> Statement[list[DeadLetter]]:
    return read_fleet.dead_letters(_filter(wanted), acknowledged=acknowledged, limit=limit)


def _script(
    ids: Sequence[UUID | str], wanted: LetterFilter, acknowledged: bool, act: Act, rate: float | None = None
) -> Script[int]:
    # None is no filter: a variable that was not set must not stand for all letters.
    if bool(ids) == any(value is not None for value in wanted.values()):
        raise InvalidOption("ids", "or a filter such as task= have to be given: say which, by one of the two.")
    pace = None if rate is None else real_number(rate, "rate", 0.001)
    if ids:
        return act_on_ids(ids, act, rate=pace)
    return act_on_all(_filter(wanted), acknowledged, act, rate=pace)


def _filter(wanted: LetterFilter) -> JobFilter:
    times: dict[str, Any] = {}
    for name, at, age in (("since", "since", "younger"), ("older_than", "before", "older")):
        value: Any = wanted.get(name)
        if isinstance(value, datetime):
            times[at] = value
        elif value is not None:
            times[age] = nonnegative_duration(value, name)
    return JobFilter(
        task=wanted.get("task"),
        queue=wanted.get("queue"),
        tenant=wanted.get("tenant"),
        error=wanted.get("error"),
        correlation_id=wanted.get("correlation_id"),
        **times,
    )
