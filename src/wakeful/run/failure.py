"""What an exception of a handler is: a failure of some kind, or a job that has to wait."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta

from wakeful.run.describe import describe
from wakeful.values.errors import BreakerOpen
from wakeful.values.failing import Failing, retry_after
from wakeful.values.outcome import Dead, Failed, Retry, Snoozed


def failed(error: BaseException, failing: Failing, secrets: Sequence[str] = ()) -> Failed:
    """The failure that an exception is, by what its task says of such."""
    error = as_raised(error)
    told = describe(error, secrets)
    if isinstance(error, Retry):
        return Failed(told, error.after, fault=failing.is_fault(error), cause=error)
    if isinstance(error, Dead):
        # The job's own fault, not the service's.
        return Failed(told, final=True, fault=False, cause=error)
    final, policy, fault = failing.is_final(error), failing.policy(error), failing.is_fault(error)
    return Failed(told, _wait_asked_for(error), final, policy, fault, cause=error)


class Escaped(Exception):
    """Carries an exception of a handler that cannot be raised in a coroutine as what it is."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(type(error)))
        self.error = error


def as_raised(error: BaseException) -> BaseException:
    """The exception that the handler raised: a coroutine makes a RuntimeError of a StopIteration."""
    if isinstance(error, Escaped):
        return error.error
    cause = error.__cause__
    return cause if isinstance(cause, StopIteration) and error.args == ("coroutine raised StopIteration",) else error


def _wait_asked_for(error: BaseException) -> timedelta | None:
    try:
        return retry_after(error)
    # Attributes of the user's own class: what they do when they are read is theirs, and the failure has to be settled.
    except Exception:
        return None


def snoozed_behind(error: BreakerOpen) -> Snoozed:
    """Until the next probe, and a little later: those that come back together are not let through together."""
    seconds = error.retry_in * random.uniform(1.0, 1.1) + random.uniform(0.0, 0.2)
    return Snoozed(timedelta(seconds=seconds), f"breaker {error.breaker} is open")
