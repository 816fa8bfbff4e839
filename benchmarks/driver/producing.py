"""The producers' loops: one by one, in bulk, and at a given pace."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.driver.probe import Probe

WARM_UP = 10

Enqueue = Callable[[int], Awaitable[object]]
EnqueueAt = Callable[[int, datetime], Awaitable[object]]
EnqueueMany = Callable[[Sequence[int]], Awaitable[object]]


async def one_by_one(enqueue: Enqueue, *, seconds: float, callers: int) -> dict[str, float]:
    """`callers` loops, each with one enqueue under way, until the time is over."""
    numbers = itertools.count(callers)
    await asyncio.gather(*(enqueue(number) for number in range(callers)))
    began = time.perf_counter()
    end = began + seconds

    async def call() -> int:
        calls = 0
        while time.perf_counter() < end:
            await enqueue(next(numbers))
            calls += 1
        return calls

    calls = sum(await asyncio.gather(*(call() for _ in range(callers))))
    return {"jobs": calls, "seconds": time.perf_counter() - began}


def one_by_one_in_threads(enqueue: Callable[[int], object], *, seconds: float, callers: int) -> dict[str, float]:
    """The same for a library without async."""
    numbers = itertools.count(callers)
    for number in range(callers):
        enqueue(number)
    counts: list[int] = []
    began = time.perf_counter()
    end = began + seconds

    def call() -> None:
        calls = 0
        while time.perf_counter() < end:
            enqueue(next(numbers))
            calls += 1
        counts.append(calls)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"jobs": sum(counts), "seconds": time.perf_counter() - began}


async def in_bulk(enqueue_many: EnqueueMany, *, jobs: int, chunk: int) -> dict[str, float]:
    """Chunk after chunk, on one connection where the library leaves that open."""
    began = time.monotonic_ns()
    for first in range(0, jobs, chunk):
        await enqueue_many(range(first, min(first + chunk, jobs)))
    return {"jobs": jobs, "seconds": (time.monotonic_ns() - began) / 1e9, "began_ns": began}


async def at_a_pace(enqueue: Enqueue, probe: Probe, *, jobs: int, interval_ms: float) -> dict[str, float]:
    """A job every `interval_ms`, whether or not the last one is answered, each with its time of sending."""

    async def send(number: int) -> None:
        probe.send(number)
        await enqueue(number)

    for number in range(jobs, jobs + WARM_UP):
        await send(number)
        await asyncio.sleep(0.05)
    answers: set[asyncio.Task[None]] = set()
    for number, moment in enumerate(_moments(jobs, interval_ms / 1000)):
        await asyncio.sleep(max(0.0, moment - time.perf_counter()))
        answers.add(asyncio.create_task(send(number)))
    await asyncio.gather(*answers)
    return {"jobs": jobs}


def at_a_pace_in_one_thread(
    enqueue: Callable[[int], object], probe: Probe, *, jobs: int, interval_ms: float
) -> dict[str, float]:
    """The same for a library without async: one call after the other."""
    for number in range(jobs, jobs + WARM_UP):
        probe.send(number)
        enqueue(number)
        time.sleep(0.05)
    for number, moment in enumerate(_moments(jobs, interval_ms / 1000)):
        time.sleep(max(0.0, moment - time.perf_counter()))
        probe.send(number)
        enqueue(number)
    return {"jobs": jobs}


def _moments(jobs: int, interval_seconds: float) -> Iterator[float]:
    began = time.perf_counter() + interval_seconds
    return (began + number * interval_seconds for number in range(jobs))


async def for_later(
    enqueue_at: EnqueueAt, probe: Probe, *, jobs: int, interval_ms: float, ahead_seconds: float
) -> dict[str, float]:
    """Jobs due one after the other, each with the moment it is due as its time of sending."""
    start, now = time.monotonic_ns(), datetime.now(UTC)
    for number in range(jobs):
        ahead = ahead_seconds + number * interval_ms / 1000
        probe.sent[number] = start + int(ahead * 1e9)
        await enqueue_at(number, now + timedelta(seconds=ahead))
    return {"jobs": jobs}


async def gathered(enqueue: Enqueue, numbers: Sequence[int]) -> Any:
    """Bulk for a library that has none: concurrent single calls."""
    return await asyncio.gather(*(enqueue(number) for number in numbers))
