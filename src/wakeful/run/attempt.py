"""One attempt: call the handler, and make an outcome of whatever comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from wakeful.payload import encode_result
from wakeful.run.describe import describe
from wakeful.run.failure import failed, snoozed_behind
from wakeful.run.handler import Handler
from wakeful.run.redact import secrets_in
from wakeful.run.remote import RemoteFailure
from wakeful.values.current import current_fields, current_job
from wakeful.values.errors import BreakerOpen, PayloadError
from wakeful.values.job import Job
from wakeful.values.outcome import (
    AttemptError,
    Cancel,
    Cancelled,
    Done,
    Failed,
    Gone,
    Outcome,
    Released,
    Snooze,
    Snoozed,
)

Why = Literal["cancelled", "timeout", "shutdown", "lost"]

# Notes are taken on the loop while handlers in threads go on noting. One lock for all: it is held for a moment.
_noting = threading.Lock()


DONE = Done(None)
# For a job that completed itself in the user's transaction: the fence refuses this if that was committed.
UNLESS_COMMITTED = Failed(
    AttemptError("not_committed", "the transaction in which it completed itself was not committed")
)


class Notes:
    """What a handler noted and is not written yet."""

    __slots__ = ("counters", "progress")

    def __init__(self) -> None:
        self.progress: Mapping[str, object] | None = None
        self.counters: dict[str, float] = {}

    def with_later(self, later: Notes) -> Notes:
        """Both as one: the later progress, and counters added up."""
        both = Notes()
        both.progress = self.progress if later.progress is None else later.progress
        both.counters = dict(self.counters)
        for name, number in later.counters.items():
            both.counters[name] = both.counters.get(name, 0) + number
        return both


class Attempt:
    """A job that is being run. `stop` tells its handler to end; the first reason given stands.

    `deadline` is on the loop's clock; whoever runs attempts looks at it now and then, because a timer for each job
    would cost more than most jobs do.
    """

    __slots__ = (
        "counted",
        "deadline",
        "handler",
        "job",
        "joined",
        "lease",
        "leftover",
        "notes",
        "settled",
        "shared",
        "started",
        "stopped",
        "suspended",
        "task",
        "why",
    )

    def __init__(self, job: Job, handler: Handler, started: float) -> None:
        self.job = job
        self.handler = handler
        self.started = started
        self.deadline = started + handler.seconds
        self.lease = handler.lease
        self.why: Why | None = None
        # Settled: in a transaction of ours that committed. Joined: in one of the user's, of which only the table knows.
        self.settled = False
        self.joined = False
        # Shared: the handler runs for others too, so a cancellation of this job alone does not stop it.
        self.shared = False
        self.stopped: threading.Event | None = None
        # A thread that would not stop: the slot is free again when it has ended.
        self.leftover: asyncio.Future[object] | None = None
        self.notes: Notes | None = None
        # Whether it ever waited for anything: until then nobody but its handler can know of it.
        self.suspended = False
        # All that was counted, written or not.
        self.counted: dict[str, float] | None = None
        self.task: asyncio.Task[None] | None = None

    def begin(self, task: asyncio.Task[None]) -> None:
        """The attempt has `task` for itself, and can be stopped from now on."""
        self.suspended = True
        self.task = task

    def note(self, *, progress: Mapping[str, object] | None = None, name: str | None = None, number: float = 0) -> None:
        """Keep progress, or add to a counter, until it is written. Called from the handler's thread."""
        with _noting:
            notes = self.notes or Notes()
            if progress is not None:
                notes.progress = progress
            if name is not None:
                notes.counters[name] = notes.counters.get(name, 0) + number
                counted = self.counted = self.counted or {}
                counted[name] = counted.get(name, 0) + number
            self.notes = notes

    def take_notes(self) -> Notes:
        """What was noted since the last time."""
        with _noting:
            notes, self.notes = self.notes, None
        return notes or Notes()

    def stop(self, why: Why) -> None:
        """Ask the handler to end: a cancellation on the loop, an event for a thread."""
        if self.why is None and not (self.shared and why == "cancelled"):
            self.why = why
            if self.stopped is not None:
                self.stopped.set()
            if self.task is not None:
                self.task.cancel()

    def end(self) -> None:
        """The attempt is over; nothing can stop it any more."""
        self.task = None


async def attempt(running: Attempt, call: Callable[[Attempt], Awaitable[object]]) -> Outcome:
    """Run the handler through `call` to its outcome. Never raises, unless it is closed itself."""
    current_job.set(running.job)
    if running.handler.log_fields:
        current_fields.set(running.handler.fields_of(running.job.payload))
    try:
        value = await call(running)
        return _settled(running) or (UNLESS_COMMITTED if running.joined else read_value(value))
    except asyncio.CancelledError as error:
        return _settled(running) or read_cancellation(running, error)
    # A user's handler may raise anything at all, and each of it is an outcome.
    except BaseException as error:
        if is_closed(error, running):
            raise
        return _settled(running) or read_error(error, running)


def is_closed(error: BaseException, running: Attempt) -> bool:
    """Whether this is the end of a coroutine that nobody runs any more, and not what a handler raised."""
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return running.task is not None and asyncio.current_task() is not running.task
    except RuntimeError:  # No loop is running.
        return True


def read_value(value: object) -> Outcome:
    """What a handler's return value says."""
    if value is None:
        return DONE
    match value:
        case Snooze():
            return Snoozed(value.delay, value.reason)
        case Cancel():
            return Cancelled(value.reason)
    try:
        return Done(encode_result(value))
    except PayloadError as error:
        # The work is done; running it again would not make its result storable.
        return Failed(describe(error), final=True)


def read_cancellation(running: Attempt, error: asyncio.CancelledError) -> Outcome:
    """What it says that the handler was left by a cancellation."""
    # Not by the worker: the handler awaited something that was cancelled, or cancelled itself. That is its failure.
    return read_error(error, running) if running.why is None else interpret_stop(running)


def read_error(error: BaseException, running: Attempt) -> Outcome:
    """What a handler's exception says."""
    if isinstance(error, RemoteFailure):
        return Failed(error.error, error.retry_in, error.final, error.policy, error.fault)
    if isinstance(error, BreakerOpen):
        return snoozed_behind(error)
    handler = running.handler
    return failed(error, handler.failing, secrets_in(running.job.payload, handler.failing.redact))


def _settled(running: Attempt) -> Gone | None:
    return Gone() if running.settled or running.why == "lost" else None


def interpret_stop(running: Attempt) -> Outcome:
    """The outcome of an attempt that was stopped."""
    match running.why:
        case "cancelled":
            return Cancelled(None)
        case "shutdown":
            return Released()
        case "lost":
            return Gone()
        case _:
            limit = running.handler.timeout
            seconds = limit.total_seconds() if limit else 0
            return Failed(AttemptError("timeout", f"the handler ran for more than {seconds:g} s"))
