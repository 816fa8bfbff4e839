"""PgQueuer: asyncpg, batched fetch, buffered acknowledgement."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

SYSTEM = System(
    name="pgqueuer",
    title="PgQueuer",
    kind="peer",
    module="benchmarks.peers.pgqueuer",
    home=Python(("pgqueuer", "asyncpg", "uvloop")),
    settings="batch of 1,000 (10 in the latency runs), asyncpg, uvloop",
    unfinished="select exists (select from pgqueuer where status in ('queued', 'picked'))",
    handlers=frozenset(("noop", "sleep", "sync")),
    schedules=True,
)


class PgQueuer(Driver):
    async def setup(self) -> None:
        await self.open()
        await self.queries.install()
        await self.close()

    async def open(self) -> None:
        import asyncpg  # type: ignore[import-untyped]
        from pgqueuer.db import AsyncpgPoolDriver  # type: ignore[import-not-found]
        from pgqueuer.queries import Queries  # type: ignore[import-not-found]

        self.pool = await asyncpg.create_pool(self.dsn, min_size=1, max_size=20)
        self.queries: Any = Queries(AsyncpgPoolDriver(self.pool))

    async def close(self) -> None:
        await self.pool.close()

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.queries.enqueue(handler, json.dumps({"n": number}).encode())

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        payloads = [json.dumps({"n": number}).encode() for number in numbers]
        return await self.queries.enqueue([handler] * len(payloads), payloads, [0] * len(payloads))

    async def enqueue_at(self, handler: Handler, number: int, moment: datetime) -> object:
        payload = json.dumps({"n": number}).encode()
        return await self.queries.enqueue(handler, payload, execute_after=moment - datetime.now(UTC))

    async def work(self, load: Load, probe: Probe) -> None:
        import asyncpg
        from pgqueuer import PgQueuer as Queue  # type: ignore[import-not-found]
        from pgqueuer.db import AsyncpgDriver

        queue = Queue(AsyncpgDriver(await asyncpg.connect(self.dsn)))
        for name, function in handlers(probe).items():
            queue.entrypoint(name)(_of_job(function))
        # Its batch is its only bound on what runs at once.
        batch = load.batch or (10 if load.slots else 1000)
        await queue.run(batch_size=batch, dequeue_timeout=timedelta(seconds=30))


def _of_job(function: Callable[[int], Any]) -> Callable[[Any], Any]:
    async def run(job: Any) -> None:
        await function(json.loads(job.payload)["n"])

    async def run_in_thread(job: Any) -> None:
        await asyncio.to_thread(function, json.loads(job.payload)["n"])

    return run if inspect.iscoroutinefunction(function) else run_in_thread


if __name__ == "__main__":
    import uvloop

    drive(PgQueuer, uvloop.run)
