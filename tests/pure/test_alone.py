"""Time limits and retries on their own, sync and async."""

from __future__ import annotations

import asyncio
import time

import pytest

from wakeful.guard import with_retry, with_timeout
from wakeful.values.errors import InvalidOption
from wakeful.values.outcome import Dead, Retry
from wakeful.values.retry import Fixed


class Flaky:
    """Fails so many times, then answers."""

    def __init__(self, failures: int, error: BaseException) -> None:
        self.left, self.error, self.calls = failures, error, 0

    def call(self, value: int) -> int:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error
        return value

    async def acall(self, value: int) -> int:
        await asyncio.sleep(0)
        return self.call(value)


async def test_what_takes_too_long_is_given_up() -> None:
    assert await with_timeout("5s", asyncio.sleep, 0, "done") == "done"
    assert with_timeout(5, sum, [1, 2]) == 3
    with pytest.raises(TimeoutError):
        await with_timeout(0.01, asyncio.sleep, 5)
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        with_timeout(0.01, time.sleep, 0.1)
    with pytest.raises(ZeroDivisionError):
        with_timeout(1, lambda: 1 / 0)
    with pytest.raises(InvalidOption, match="timeout"):
        with_timeout(0, sum, [])


async def test_what_fails_is_tried_again() -> None:
    flaky = Flaky(2, ConnectionError("down"))
    assert with_retry(flaky.call, 7, retry=Fixed(0)) == 7
    assert flaky.calls == 3
    again = Flaky(2, ConnectionError("down"))
    assert await with_retry(again.acall, 7, retry=Fixed(0)) == 7


async def test_not_more_often_than_allowed_and_the_last_error_is_raised() -> None:
    flaky = Flaky(9, ConnectionError("down"))
    with pytest.raises(ConnectionError, match="down"):
        with_retry(flaky.call, 7, retry=Fixed(0), max_attempts=3)
    assert flaky.calls == 3
    with pytest.raises(ConnectionError):
        await with_retry(flaky.acall, 7, retry=Fixed(0), max_attempts=2)


def test_other_errors_and_the_dead_are_not_tried_again() -> None:
    flaky = Flaky(1, ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        with_retry(flaky.call, 7, retry=Fixed(0), retry_on=ConnectionError)
    dead = Flaky(1, Dead("no"))
    with pytest.raises(Dead):
        with_retry(dead.call, 7, retry=Fixed(0))
    assert (flaky.calls, dead.calls) == (1, 1)


def test_who_asks_for_a_wait_gets_it() -> None:
    began = time.monotonic()
    assert with_retry(Flaky(1, Retry(after=0.05)).call, 7, retry=Fixed(60)) == 7
    assert 0.05 <= time.monotonic() - began < 5
