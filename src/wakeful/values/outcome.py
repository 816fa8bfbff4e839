"""How an attempt went: what a handler may say, and what the worker makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from wakeful.values.duration import DurationLike, nonnegative_duration
from wakeful.values.retry import RetryPolicy


class Snooze:
    """Return it from a handler to be started again after `delay`, without an attempt being charged."""

    __slots__ = ("delay", "reason")

    def __init__(self, delay: DurationLike, reason: str | None = None) -> None:
        self.delay = nonnegative_duration(delay, "delay")
        self.reason = reason


class Cancel:
    """Return it from a handler to end the job as cancelled."""

    __slots__ = ("reason",)

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason


class Retry(Exception):
    """Raise it to fail this attempt and start again after `after`, whatever the task's policy says."""

    def __init__(self, after: DurationLike | None = None, reason: str = "the handler asked for a retry") -> None:
        super().__init__(reason)
        self.after = None if after is None else nonnegative_duration(after, "after")


class Dead(Exception):
    """Raise it to send the job to the dead letters at once."""


@dataclass(frozen=True, slots=True)
class AttemptError:
    """What is kept of a failure: a code to group by, a message to read, details (JSON text) to dig into."""

    code: str
    message: str
    details: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The handler returned; `result` is JSON text, None for none."""

    result: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised. `retry_in` is what it asked for itself; `final` that it asked for no further start.

    `policy` is the one for this kind of failure, None for the task's; `fault`: it counts against the task's breaker.
    `cause` is what was raised, for those who observe; it goes no further.
    """

    error: AttemptError
    retry_in: timedelta | None = None
    final: bool = False
    policy: RetryPolicy | None = None
    fault: bool = True
    cause: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler wants to be started again later."""

    delay: timedelta
    reason: str | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job is over: its handler said so, or did when it was asked to stop."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class Released:
    """The worker gives the job back unharmed."""


@dataclass(frozen=True, slots=True)
class Gone:
    """There is nothing to settle: the job settled itself in its own transaction, or the lease is lost."""


Outcome = Done | Failed | Snoozed | Cancelled | Released | Gone
