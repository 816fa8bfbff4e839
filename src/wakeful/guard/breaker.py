"""A circuit breaker around a call: `with app.breaker("smtp"):` or `async with`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from wakeful.database.session import Database
from wakeful.statements import policy as statements
from wakeful.statements.statement import Statement
from wakeful.values.current import current_job
from wakeful.values.errors import BreakerOpen, DatabaseUnavailable
from wakeful.values.identity import new_id
from wakeful.values.outcome import Dead
from wakeful.values.policy import BreakerPolicy, Faults
from wakeful.values.report import Entry


@dataclass(frozen=True, slots=True)
class Passage:
    """One call that was let through."""

    holder: UUID
    entry: Entry
    began: float


_passages: Final[ContextVar[tuple[Passage, ...]]] = ContextVar("wakeful_breaker_passages", default=())


class Breaker:
    """A circuit breaker that all processes share. Entering one that is open raises BreakerOpen.

    In a handler that snoozes the job until the next probe, and charges no attempt. What leaves the block as an
    exception that counts is a failure of the service. One object may be used by any number of threads and coroutines at
    once. A database that cannot be reached keeps no call from being made.
    """

    def __init__(
        self,
        name: str,
        database: Callable[[], Database],
        policy: BreakerPolicy = BreakerPolicy(),  # noqa: B008 - frozen
        counts: Faults | None = None,
        settings: Callable[[], BreakerPolicy] = BreakerPolicy,
    ) -> None:
        self.name = name
        self.policy = policy
        self._database = database
        self._counts = counts
        self._settings = settings

    def __enter__(self) -> Self:
        holder, statement = self._knock()
        with suppress(DatabaseUnavailable):
            self._pass(holder, self._database().run(statement))
            return self
        self._pass(holder, Entry(None, False, False))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (statement := self._verdict(error)) is not None:
            with suppress(DatabaseUnavailable):
                self._database().run(statement)

    async def __aenter__(self) -> Self:
        holder, statement = self._knock()
        with suppress(DatabaseUnavailable):
            self._pass(holder, await self._database().arun(statement))
            return self
        self._pass(holder, Entry(None, False, False))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (statement := self._verdict(error)) is not None:
            with suppress(DatabaseUnavailable):
                await self._database().arun(statement)

    def _knock(self) -> tuple[UUID, Statement[Entry]]:
        job = current_job.get()
        holder, epoch = (new_id(), None) if job is None else (job.id, job.epoch)
        return holder, statements.enter(self.name, holder, epoch, self.policy.over(self._settings()))

    def _pass(self, holder: UUID, entry: Entry) -> None:
        if entry.wait is not None:
            raise BreakerOpen(self.name, entry.wait)
        _passages.set((*_passages.get(), Passage(holder, entry, time.monotonic())))

    def _verdict(self, error: BaseException | None) -> Statement[None] | None:
        """What to tell the breaker; None where it does not need to hear of it."""
        *before, passage = _passages.get()
        _passages.set(tuple(before))
        succeeded = None if error is not None and not self._is_fault(error) else error is None
        if not passage.entry.listens and succeeded is not False:
            return None
        took = timedelta(seconds=time.monotonic() - passage.began)
        return statements.leave(self.name, passage.holder, succeeded, took, passage.entry.probing)

    def _is_fault(self, error: BaseException) -> bool:
        # A cancellation, and a failure that is the job's own, say nothing of the service.
        if not isinstance(error, Exception) or isinstance(error, BreakerOpen | Dead):
            return False
        return self._counts is None or bool(self._counts(error))
