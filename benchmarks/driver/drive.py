"""Runs one verb of a system and prints its answer as the last line, in JSON.

python -m benchmarks.peers.NAME VERB '{"argument": …}'
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from benchmarks.driver.load import SLEEP_SECONDS, Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.driver.producing import (
    at_a_pace,
    at_a_pace_in_one_thread,
    for_later,
    gathered,
    in_bulk,
    one_by_one,
    one_by_one_in_threads,
)


class Driver(ABC):
    """One system through its public interface. A new instance, in a new process, for every verb."""

    chunk = 1000
    """Jobs a call, in bulk."""

    def __init__(self) -> None:
        self.dsn = os.environ["BENCH_DSN"]

    async def setup(self) -> None:
        """Make the schema in an empty database."""
        return

    async def open(self) -> None:
        """Get ready to enqueue."""
        return

    async def close(self) -> None:
        """Let go of connections."""
        return

    @abstractmethod
    async def enqueue(self, handler: Handler, number: int) -> object:
        """One job, durably committed when this returns."""

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        """Many jobs, committed when this returns."""
        return await gathered(lambda number: self.enqueue(handler, number), numbers)

    async def enqueue_at(self, handler: Handler, number: int, moment: datetime) -> object:
        """One job, to be started at the moment and not before."""
        raise NotImplementedError

    @abstractmethod
    async def work(self, load: Load, probe: Probe) -> None:
        """Run jobs until SIGTERM."""


def handlers(probe: Probe) -> dict[Handler, Callable[[int], Any]]:
    """The functions that systems are asked to run."""

    async def noop(n: int) -> None:
        probe.start(n)

    async def sleep(n: int) -> None:
        probe.start(n)
        await asyncio.sleep(SLEEP_SECONDS)

    def sync(n: int) -> None:
        probe.start(n)

    async def hold(n: int) -> None:
        probe.start(n)
        await asyncio.sleep(3600)

    return {"noop": noop, "sleep": sleep, "sync": sync, "hold": hold}


class BlockingDriver(Driver):
    """A system whose client has no async form: callers are threads."""

    @abstractmethod
    def enqueue_now(self, handler: Handler, number: int) -> object:
        """One job, sent when this returns."""

    async def enqueue(self, handler: Handler, number: int) -> object:
        return self.enqueue_now(handler, number)

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        return [self.enqueue_now(handler, number) for number in numbers]


async def answer(driver: Driver, verb: str, arguments: Mapping[str, Any]) -> Any:
    """Carry out one verb."""
    match verb:
        case "setup":
            return await driver.setup()
        case "worker":
            return await driver.work(Load(**arguments), Probe())
    await driver.open()
    try:
        return await _produce(driver, verb, **arguments)
    finally:
        await driver.close()


async def _produce(driver: Driver, verb: str, handler: Handler = "noop", **options: Any) -> Any:
    match verb, driver:
        case "bulk", _:
            many = partial(driver.enqueue_many, handler)
            return await in_bulk(many, chunk=driver.chunk, **options)
        case "one_by_one", BlockingDriver():
            return one_by_one_in_threads(partial(driver.enqueue_now, handler), **options)
        case "one_by_one", _:
            return await one_by_one(partial(driver.enqueue, handler), **options)
        case "pace", BlockingDriver():
            return at_a_pace_in_one_thread(partial(driver.enqueue_now, handler), Probe(), **options)
        case "pace", _:
            return await at_a_pace(partial(driver.enqueue, handler), Probe(), **options)
        case "schedule", _:
            return await for_later(partial(driver.enqueue_at, handler), Probe(), **options)
    raise SystemExit(f"unknown verb {verb}")


def drive(driver: type[Driver], run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run) -> None:
    """What a system's file does when it is run. `run`: uvloop's, where a system works with it."""
    verb, arguments = sys.argv[1], json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}")
    result = run(answer(driver(), verb, arguments))
    print("\n" + json.dumps(result or {}), flush=True)
