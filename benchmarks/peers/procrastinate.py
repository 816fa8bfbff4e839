"""Procrastinate: psycopg, one statement for each fetch and each acknowledgement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

SYSTEM = System(
    name="procrastinate",
    title="Procrastinate",
    kind="peer",
    module="benchmarks.peers.procrastinate",
    home=Python(("procrastinate", "psycopg[binary,pool]", "uvloop")),
    settings="concurrency 30, pool of 20, uvloop",
    unfinished="select exists (select from procrastinate_jobs where status in ('todo', 'doing'))",
    handlers=frozenset(("noop", "sleep", "sync")),
    jobs=5_000,
    schedules=True,
)


class Procrastinate(Driver):
    def __init__(self) -> None:
        super().__init__()
        import procrastinate  # type: ignore[import-not-found]

        connector = procrastinate.PsycopgConnector(conninfo=self.dsn, min_size=1, max_size=20)
        self.app: Any = procrastinate.App(connector=connector)

    async def setup(self) -> None:
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self.app.open_async()

    async def close(self) -> None:
        await self.app.close_async()

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.app.configure_task(handler).defer_async(n=number)

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        return await self.app.configure_task(handler).batch_defer_async(*({"n": n} for n in numbers))

    async def enqueue_at(self, handler: Handler, number: int, moment: datetime) -> object:
        return await self.app.configure_task(handler, schedule_at=moment).defer_async(n=number)

    async def work(self, load: Load, probe: Probe) -> None:
        for name, function in handlers(probe).items():
            self.app.task(name=name)(function)
        async with self.app.open_async():
            await self.app.run_worker_async(concurrency=load.slots or 30)


if __name__ == "__main__":
    import uvloop

    drive(Procrastinate, uvloop.run)
