"""SAQ on its PostgreSQL queue: psycopg, three updates a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

SYSTEM = System(
    name="saq",
    title="SAQ (PostgreSQL)",
    kind="peer",
    module="benchmarks.peers.saq",
    home=Python(("saq[postgres]", "psycopg[binary,pool]", "uvloop")),
    settings="concurrency 20, pool of 20, uvloop; no bulk enqueue",
    unfinished="select exists (select from saq_jobs where status in ('new', 'queued', 'active'))",
    handlers=frozenset(("noop", "sleep", "sync")),
    jobs=5_000,
)


class Saq(Driver):
    chunk = 500

    async def setup(self) -> None:
        await self.open()
        await self.close()

    async def open(self) -> None:
        from psycopg_pool import AsyncConnectionPool
        from saq.queue.postgres import PostgresQueue  # type: ignore[import-not-found]

        pool: Any = AsyncConnectionPool(self.dsn, open=False, min_size=4, max_size=20)
        self.queue: Any = PostgresQueue(pool=pool, manage_pool_lifecycle=True)
        await self.queue.connect()

    async def close(self) -> None:
        await self.queue.disconnect()

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.queue.enqueue(handler, n=number)

    async def work(self, load: Load, probe: Probe) -> None:
        from saq import Worker  # type: ignore[import-not-found]

        await self.open()
        functions = [(name, _with_context(function)) for name, function in handlers(probe).items()]
        await Worker(self.queue, functions=functions, concurrency=load.slots or 20).start()


def _with_context(function: Callable[[int], Any]) -> Callable[..., Any]:
    async def run(context: object, *, n: int) -> None:
        await function(n)

    def run_in_thread(context: object, *, n: int) -> None:
        function(n)

    return run if inspect.iscoroutinefunction(function) else run_in_thread


if __name__ == "__main__":
    import uvloop

    drive(Saq, uvloop.run)
