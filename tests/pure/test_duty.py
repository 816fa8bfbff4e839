"""A duty is taken up again whatever happens, with growing waits, and given up only where that was asked for."""

from __future__ import annotations

import asyncio

import pytest

from wakeful.tend import duty
from wakeful.tend.duty import Duty


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between the turns, which take no time here."""
    waited: list[float] = []
    sleep = asyncio.sleep

    async def no_time(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr("wakeful.tend.duty.asyncio.sleep", no_time)
    return waited


async def test_it_is_taken_up_again_after_a_failure_and_after_an_end(
    caplog: pytest.LogCaptureFixture, waits: list[float]
) -> None:
    turns = 0
    enough = asyncio.Event()

    async def work() -> None:
        nonlocal turns
        turns += 1
        if turns == 10:
            enough.set()
        if turns < 6:
            raise ValueError("made up")

    running = asyncio.create_task(Duty("test", work).run())
    await enough.wait()
    running.cancel()
    assert caplog.text.count("duty_failed: test") == 5
    # Each wait is spread by half of itself: the fourth is longer than the first all the same.
    assert waits[3] > waits[0] > 0
    assert waits[7] == 0, "what has ended well is taken up at once"


async def test_a_wait_has_a_limit(waits: list[float]) -> None:
    async def work() -> None:
        if len(waits) == 30:
            raise asyncio.CancelledError
        raise ValueError

    with pytest.raises(asyncio.CancelledError):
        await Duty("test", work).run()
    assert max(waits) <= 1.5 * duty.LONGEST_WAIT


async def test_it_is_given_up_after_so_many_failures_in_a_row() -> None:
    turns = 0

    async def work() -> None:
        nonlocal turns
        turns += 1
        if turns != 2:
            raise ValueError("made up")

    with pytest.raises(ValueError, match="made up"):
        await Duty("test", work, give_up_after=3).run()
    assert turns == 5
