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
    told = describe(error, secrets)
    if isinstance(error, Retry):
        return Failed(told, error.after, fault=failing.is_fault(error), cause=error)
    if isinstance(error, Dead):
        # The job's own fault, not the service's.
        return Failed(told, final=True, fault=False, cause=error)
    final, policy, fault = failing.is_final(error), failing.policy(error), failing.is_fault(error)
    return Failed(told, retry_after(error), final, policy, fault, cause=error)


def snoozed_behind(error: BreakerOpen) -> Snoozed:
    """Until the next probe, and a little later: those that come back together are not let through together."""
    seconds = error.retry_in * random.uniform(1.0, 1.1) + random.uniform(0.0, 0.2)
    return Snoozed(timedelta(seconds=seconds), f"breaker {error.breaker} is open")
