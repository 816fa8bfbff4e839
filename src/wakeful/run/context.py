"""What a handler is given besides its arguments: the running job, and the verbs that go through its fence."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from wakeful.payload import encode_result
from wakeful.run.attempt import Attempt
from wakeful.statements import settle as statements
from wakeful.statements.statement import Statement
from wakeful.values.duration import DurationLike, duration
from wakeful.values.errors import DatabaseUnavailable, InvalidOption, StaleClaim
from wakeful.values.job import Job, JobId
from wakeful.values.settlement import Completion
from wakeful.values.wording import shown

T = TypeVar("T")


class AsyncDesk(Protocol):
    """What contexts need of the worker, for handlers on the loop."""

    async def arun(self, statement: Statement[T]) -> T: ...

    async def arun_on(self, conn: object, statement: Statement[T]) -> T: ...

    def atransaction(self) -> Any: ...

    async def aenqueue(
        self, task: str, payload: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> JobId | None: ...


class SyncDesk(Protocol):
    """What contexts need of the worker, for handlers in threads."""

    def run(self, statement: Statement[T]) -> T: ...

    def run_on(self, conn: object, statement: Statement[T]) -> T: ...

    def transaction(self) -> Any: ...

    def enqueue(self, task: str, payload: Mapping[str, object] | None, options: Mapping[str, Any]) -> JobId | None: ...


class BaseContext:
    """What both kinds of handler are given."""

    def __init__(self, running: Attempt) -> None:
        self._running = running

    @property
    def job(self) -> Job:
        """The claimed job."""
        return self._running.job

    @property
    def attempt(self) -> int:
        """Which start this is, from 1."""
        return self.job.attempt

    @property
    def epoch(self) -> int:
        """The number of this claim; it only grows."""
        return self.job.epoch

    @property
    def correlation_id(self) -> UUID:
        """What this job and all it enqueues have in common."""
        return self.job.correlation_id

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        """What was enqueued beside the payload."""
        found: dict[str, Any] = msgspec.json.decode(self.job.metadata) if self.job.metadata else {}
        return found

    @property
    def idempotency_key(self) -> str:
        """The same over attempts and requeues: give it to outside services that take one."""
        return str(self.metadata.get("idempotency_key") or self.job.id)

    @cached_property
    def saved(self) -> Any:
        """What the last `save` of an earlier attempt left; None for nothing."""
        return msgspec.json.decode(self.job.saved) if self.job.saved else None

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end: cancelled, out of time, shutting down, or the lease is lost."""
        return self._running.why is not None

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the job's ids."""
        return JobLogger(
            logging.getLogger(f"wakeful.task.{self.job.task}"),
            {
                "job_id": str(self.job.id),
                "task": self.job.task,
                "attempt": self.job.attempt,
                "correlation_id": str(self.job.correlation_id),
            },
        )

    def progress(self, percent: float, message: str | None = None) -> None:
        """Note how far the work is. Written with the next flush, at the latest within a second or so."""
        self._running.note(progress={"percent": percent, "message": message})

    def count(self, name: str, number: float = 1) -> None:
        """Add to one of the job's own counters. Written with the next flush, and before the job is settled."""
        self._running.note(name=name, number=countable(number))

    def _fence(self) -> tuple[UUID, UUID, int]:
        return self.job.worker_id, self.job.id, self.job.epoch

    def _completion(self, result: object) -> Completion:
        return Completion(self.job.key, self.job.epoch, encode_result(result))


def countable(number: float) -> float:
    """A number that can be added to any other: a whole one that is not too large, or a float."""
    if type(number) is int and abs(number) < 2**63:
        return number
    try:
        # What can be a float, but not a text that reads like one.
        return number.__float__()
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise InvalidOption("number", f"is {shown(number)}: count with numbers up to 1e308.") from None


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the job's fields to those of a line, where LoggerAdapter would replace them."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """As LoggerAdapter's."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class Context(BaseContext):
    """For `async def` handlers. In a `def` handler the same verbs are there without `await`: see SyncContext."""

    def __init__(self, running: Attempt, desk: AsyncDesk) -> None:
        super().__init__(running)
        self._desk = desk

    async def save(self, state: object) -> None:
        """Keep a checkpoint for the next attempt. Durable on return; StaleClaim when the lease is lost."""
        saved = encode_result(state) or "null"
        if not await self._desk.arun(statements.note(*self._fence(), saved=saved)):
            raise StaleClaim(self.job.id)

    async def extend(self, lease: DurationLike) -> None:
        """Give this job a lease of its own, renewed until the handler ends; StaleClaim when it is lost."""
        await _extended(self._desk.arun, self.job, duration(lease))
        self._running.lease = duration(lease)

    async def enqueue(self, task: str, payload: Mapping[str, object] | None = None, **options: Any) -> JobId | None:
        """Enqueue a child, which inherits the correlation id."""
        return await self._desk.aenqueue(task, payload, options)

    @asynccontextmanager
    async def transaction(self, result: object = None) -> AsyncIterator[Any]:
        """A psycopg connection in a transaction that completes this job with `result` just before it commits.

        What is written in it happens exactly once: if the lease is gone, the whole transaction fails with StaleClaim.
        """
        conn: Any
        try:
            async with self._desk.atransaction() as conn:
                yield conn
                await self._desk.arun_on(
                    conn, statements.complete_or_fail(self.job.worker_id, self._completion(result))
                )
        except DatabaseUnavailable:
            # A COMMIT left unanswered may have been taken: the table knows.
            if not await self._desk.arun(statements.settled_as(self.job.id, self.job.epoch, self.job.worker_id)):
                raise
        self._running.settled = True

    async def complete(self, result: object = None, *, conn: object) -> None:
        """Complete this job in the transaction of `conn`, whatever stack it is of; StaleClaim when the lease is lost.

        Nothing after it changes the outcome, provided that the transaction commits.
        """
        await self._desk.arun_on(conn, statements.complete_or_fail(self.job.worker_id, self._completion(result)))
        self._running.joined = True


class SyncContext(BaseContext):
    """For `def` handlers, which run in a thread."""

    def __init__(self, running: Attempt, desk: SyncDesk) -> None:
        super().__init__(running)
        running.stopped = threading.Event()
        self._desk = desk

    def wait(self, timeout: DurationLike) -> bool:
        """Sleep, but no longer than until the handler should end; True when it should."""
        assert self._running.stopped is not None
        return self._running.stopped.wait(duration(timeout).total_seconds())

    def save(self, state: object) -> None:
        """Keep a checkpoint for the next attempt. Durable on return; StaleClaim when the lease is lost."""
        saved = encode_result(state) or "null"
        if not self._desk.run(statements.note(*self._fence(), saved=saved)):
            raise StaleClaim(self.job.id)

    def extend(self, lease: DurationLike) -> None:
        """Give this job a lease of its own, renewed until the handler ends; StaleClaim when it is lost."""
        refused = self._desk.run(
            statements.extend(self.job.worker_id, [(self.job.id, self.job.epoch)], duration(lease))
        )
        if any(refusal.reason == "stale" for refusal in refused):
            raise StaleClaim(self.job.id)
        self._running.lease = duration(lease)

    def enqueue(self, task: str, payload: Mapping[str, object] | None = None, **options: Any) -> JobId | None:
        """Enqueue a child, which inherits the correlation id."""
        return self._desk.enqueue(task, payload, options)

    @contextmanager
    def transaction(self, result: object = None) -> Iterator[Any]:
        """A psycopg connection in a transaction that completes this job with `result` just before it commits."""
        try:
            with self._desk.transaction() as conn:
                yield conn
                self._desk.run_on(conn, statements.complete_or_fail(self.job.worker_id, self._completion(result)))
        except DatabaseUnavailable:
            # A COMMIT left unanswered may have been taken: the table knows.
            if not self._desk.run(statements.settled_as(self.job.id, self.job.epoch, self.job.worker_id)):
                raise
        self._running.settled = True

    def complete(self, result: object = None, *, conn: object) -> None:
        """Complete this job in the transaction of `conn`; StaleClaim when the lease is lost."""
        self._desk.run_on(conn, statements.complete_or_fail(self.job.worker_id, self._completion(result)))
        self._running.joined = True


async def _extended(run: Any, job: Job, lease: timedelta) -> None:
    refused = await run(statements.extend(job.worker_id, [(job.id, job.epoch)], lease))
    if any(refusal.reason == "stale" for refusal in refused):
        raise StaleClaim(job.id)
