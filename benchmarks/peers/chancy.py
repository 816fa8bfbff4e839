"""Chancy: psycopg, several queues a worker, polling with eager follow-ups and notifications."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from benchmarks.driver.drive import Driver, drive
from benchmarks.driver.drive import handlers as make_handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

SYSTEM = System(
    name="chancy",
    title="Chancy",
    kind="peer",
    module="benchmarks.peers.chancy",
    home=Python(("chancy[cli]", "psycopg[binary,pool]", "uvloop")),
    settings="async executor, concurrency 200, eager polling, pool of 20, uvloop",
    unfinished="select exists (select from chancy_jobs where state in ('pending', 'running'))",
    jobs=20_000,
)

# Chancy finds a handler again by its module and name.
_functions: dict[Handler, Any] = {}


async def noop(*, n: int) -> None:
    await _functions["noop"](n)


async def sleep(*, n: int) -> None:
    await _functions["sleep"](n)


class Chancy(Driver):
    def __init__(self) -> None:
        super().__init__()
        from chancy import Chancy as Library  # type: ignore[import-not-found]
        from chancy import job

        quiet = logging.getLogger("chancy")
        quiet.setLevel(logging.WARNING)
        self.app: Any = Library(self.dsn, min_connection_pool_size=1, max_connection_pool_size=20, log=quiet)
        self.jobs: dict[Handler, Any] = {
            "noop": job(queue="default")(noop),
            "sleep": job(queue="default")(sleep),
        }

    async def setup(self) -> None:
        async with self.app:
            await self.app.migrate()

    async def open(self) -> None:
        await self.app.__aenter__()

    async def close(self) -> None:
        await self.app.__aexit__(None, None, None)

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.app.push(self.jobs[handler].job.with_kwargs(n=number))

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        jobs = [self.jobs[handler].job.with_kwargs(n=number) for number in numbers]
        return [pushed async for pushed in self.app.push_many(jobs, batch_size=len(jobs))]

    async def work(self, load: Load, probe: Probe) -> None:
        from chancy import Chancy as Library
        from chancy import Queue, Worker

        _functions.update(make_handlers(probe))
        queue = Queue(
            "default",
            concurrency=load.slots or 200,
            executor=Library.Executor.Async,
            polling_interval=1,
            eager_polling=True,
        )
        async with self.app:
            await self.app.declare(queue, upsert=True)
            async with Worker(self.app) as worker:
                await worker.wait_for_shutdown()


if __name__ == "__main__":
    # Jobs name their function's module, which must not be __main__.
    import uvloop

    from benchmarks.peers import chancy

    drive(chancy.Chancy, uvloop.run)
