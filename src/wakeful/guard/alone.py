"""Time limits and retries for any code, without a job or a database."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast, overload

from wakeful.task.spec import is_async
from wakeful.values.duration import DurationLike, duration
from wakeful.values.errors import InvalidOption
from wakeful.values.failing import retry_after
from wakeful.values.outcome import Dead, Retry
from wakeful.values.policy import exceptions
from wakeful.values.retry import DEFAULT_RETRY, RetryLike, RetryPolicy, retry_policy, starts_allowed
from wakeful.values.wording import shown

P = ParamSpec("P")
T = TypeVar("T")

ErrorKinds = type[BaseException] | tuple[type[BaseException], ...]


@overload
def with_timeout(
    timeout: DurationLike, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> Awaitable[T]: ...


@overload
def with_timeout(timeout: DurationLike, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...


def with_timeout(timeout: DurationLike, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call the function; a TimeoutError is raised when it takes longer.

    An async one is awaited, and cancelled in time: `await with_timeout("5s", fetch, url)`. Any other runs in a thread,
    which cannot be stopped: it goes on by itself, and what it returns is lost.
    """
    limit = duration(timeout, "timeout")
    if limit <= timedelta(0):
        raise InvalidOption("timeout", f"is {shown(timeout)}: give a duration of more than zero.")
    if is_async(function):
        return _await_within(limit, function(*args, **kwargs))
    return _call_within(limit, lambda: function(*args, **kwargs))


async def _await_within(limit: timedelta, awaited: Awaitable[T]) -> T:
    async with asyncio.timeout(limit.total_seconds()):
        return await awaited


def _call_within(limit: timedelta, call: Callable[[], T]) -> T:
    outcome: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            outcome.append((True, call()))
        except BaseException as error:  # Whatever it is, it is raised again in the caller's thread.
            outcome.append((False, error))

    thread = threading.Thread(target=run, name="wakeful with_timeout", daemon=True)
    thread.start()
    thread.join(limit.total_seconds())
    if not outcome:
        raise TimeoutError(f"the call took longer than {limit.total_seconds():g} s")
    [(returned, value)] = outcome
    if returned:
        return cast(T, value)
    raise value


def with_retry(
    function: Callable[..., Any],
    /,
    *args: Any,
    retry: RetryLike = DEFAULT_RETRY,
    max_attempts: int | None = None,
    retry_on: ErrorKinds = Exception,
    **kwargs: Any,
) -> Any:
    """Call the function until it succeeds, as often as the policy and `max_attempts` allow; the last error is raised.

    An async one is awaited: `await with_retry(fetch, url, max_attempts=3)`. Only exceptions of the kinds in `retry_on`
    are tried again. A `Retry(after=…)`, and an error with an HTTP Retry-After, say themselves how long to wait; `Dead`
    ends it.
    """
    policy = retry_policy(retry)
    starts = starts_allowed(policy, max_attempts=max_attempts)
    kinds = exceptions(retry_on, "retry_on")
    if is_async(function):
        return _aretry(lambda: function(*args, **kwargs), policy, starts, kinds)
    return _retry(lambda: function(*args, **kwargs), policy, starts, kinds)


def _retry(call: Callable[[], T], policy: RetryPolicy, starts: int, kinds: tuple[type[BaseException], ...]) -> T:
    for attempt in range(1, starts):
        try:
            return call()
        except kinds as error:
            time.sleep(_wait(error, attempt, policy).total_seconds())
    return call()


async def _aretry(
    call: Callable[[], Awaitable[T]], policy: RetryPolicy, starts: int, kinds: tuple[type[BaseException], ...]
) -> T:
    for attempt in range(1, starts):
        try:
            return await call()
        except kinds as error:
            await asyncio.sleep(_wait(error, attempt, policy).total_seconds())
    return await call()


def _wait(error: BaseException, attempt: int, policy: RetryPolicy) -> timedelta:
    """The wait before the next try; raises the error again where there is none."""
    asked = error.after if isinstance(error, Retry) else retry_after(error)
    wait = None if isinstance(error, Dead) else asked if asked is not None else policy.delay(attempt)
    if wait is None:
        raise error
    return wait
