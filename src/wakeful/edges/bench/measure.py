"""The measurements, each a second or two: what the server does alone, and what wakeful makes of it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from wakeful.app import Wakeful
from wakeful.database.connect import aconnect

CALLERS = 20
WAKES = 50
WAKE_EVERY_SECONDS = 0.02
# Longer than the fallback poll: not even a lost poke takes this long.
PATIENCE_SECONDS = 30

_TABLE = "create table wakeful_bench_row (id bigint generated always as identity primary key, payload jsonb not null)"
_ROW = """insert into wakeful_bench_row (payload) values ('{"n": 1}')"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer. `key` is its name for programs."""

    key: str
    text: str
    value: float
    unit: str


Step = Callable[["Subject"], Awaitable[list[Finding]]]


class Subject:
    """An app with one task that notes when it starts, on the database that is measured."""

    def __init__(self, dsn: str, seconds: float, jobs: int) -> None:
        self.dsn = dsn
        self.seconds = seconds
        self.jobs = jobs
        self.app = Wakeful(dsn)
        self.starts: dict[int, float] = {}
        self.started = asyncio.Event()
        self.task = self.app.task(name="wakeful.bench")(self._noop)

    async def _noop(self, n: int) -> None:
        self.starts[n] = time.perf_counter()
        self.started.set()


async def commits(subject: Subject) -> list[Finding]:
    """What the server does alone: rows inserted one by one, each in a commit of its own, on as many connections."""
    connections = [await aconnect(subject.dsn, name="wakeful bench") for _ in range(CALLERS)]
    try:
        await connections[0].execute(_TABLE)
        began = time.perf_counter()
        await connections[0].execute(_ROW)
        one = time.perf_counter() - began
        free = list(connections)

        async def insert(_: int) -> None:
            conn = free.pop()
            await conn.execute(_ROW)
            free.append(conn)

        rate = await _one_by_one(insert, subject.seconds)
    finally:
        for conn in connections:
            await conn.close()
    return [
        Finding("commit_ms", "one durable commit", one * 1000, "ms"),
        Finding("bare_inserts_per_second", f"bare inserts, {CALLERS} connections", rate, "rows/s"),
    ]


async def enqueue(subject: Subject) -> list[Finding]:
    """Callers that each wait until their job is durably stored."""
    numbers = itertools.count()
    rate = await _one_by_one(lambda _: subject.task.aenqueue(n=next(numbers)), subject.seconds)
    return [Finding("enqueues_per_second", f"enqueued one by one, {CALLERS} callers", rate, "jobs/s")]


async def bulk(subject: Subject) -> list[Finding]:
    """Jobs by the thousand."""
    began = time.perf_counter()
    for first in range(0, subject.jobs, 1000):
        await subject.task.aenqueue_many([{"n": n} for n in range(first, min(first + 1000, subject.jobs))])
    rate = subject.jobs / (time.perf_counter() - began)
    return [Finding("bulk_per_second", "enqueued in bulk", rate, "jobs/s")]


async def drain(subject: Subject) -> list[Finding]:
    """A worker of 100 slots, in this process, with what was enqueued so far."""
    subject.starts.clear()
    summary = await subject.app.worker(concurrency=100).arun_once(limit=subject.jobs)
    ended = time.perf_counter()
    rate = summary.processed / (ended - min(subject.starts.values()))
    return [Finding("drained_per_second", "run and finished, one process", rate, "jobs/s")]


async def wake(subject: Subject) -> list[Finding]:
    """An idle worker, and a job now and then."""
    subject.starts.clear()
    waits = []
    async with _working(subject):
        for number in range(-WAKES, 0):
            await asyncio.sleep(WAKE_EVERY_SECONDS)
            sent = time.perf_counter()
            subject.started.clear()
            await subject.task.aenqueue(n=number)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await subject.started.wait()
            waits.append((subject.starts[number] - sent) * 1000)
    waits.sort()
    return [
        Finding("wake_p50_ms", "enqueue to start, median", waits[len(waits) // 2], "ms"),
        Finding("wake_p99_ms", "enqueue to start, 99 of 100", waits[int(len(waits) * 0.99)], "ms"),
    ]


STEPS: tuple[tuple[str, Step], ...] = (
    ("commits", commits),
    ("enqueue one by one", enqueue),
    ("enqueue in bulk", bulk),
    ("drain", drain),
    ("wake up", wake),
)


async def _one_by_one(call: Callable[[int], Awaitable[Any]], seconds: float) -> float:
    """Calls a second, with one under way for each caller."""
    await asyncio.gather(*(call(number) for number in range(CALLERS)))
    began = time.perf_counter()
    end = began + seconds

    async def caller(number: int) -> int:
        calls = 0
        while time.perf_counter() < end:
            await call(number)
            calls += 1
        return calls

    done = sum(await asyncio.gather(*(caller(number) for number in range(CALLERS))))
    return done / (time.perf_counter() - began)


@asynccontextmanager
async def _working(subject: Subject) -> AsyncIterator[None]:
    """A worker of 4 slots that has emptied the queue and sleeps."""
    while (await subject.app.worker(concurrency=100).arun_once(limit=1_000_000)).processed:
        pass
    worker = subject.app.worker(concurrency=4)
    running = asyncio.create_task(worker.arun())
    try:
        await asyncio.sleep(0.5)
        yield
    finally:
        worker.stop()
        await running
