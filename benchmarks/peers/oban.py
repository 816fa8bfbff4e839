"""Oban for Python: psycopg, one statement for each acknowledgement."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

SYSTEM = System(
    name="oban",
    title="Oban (Python)",
    kind="peer",
    module="benchmarks.peers.oban",
    home=Python(("oban", "uvloop"), at_least=(3, 12)),
    settings="queue limit 200, pool of 20, uvloop",
    unfinished="select exists (select from oban_jobs where state in ('available', 'executing', 'scheduled'))",
    jobs=15_000,
)


class Oban(Driver):
    async def setup(self) -> None:
        from oban import Oban as Library  # type: ignore[import-not-found]
        from oban.schema import install  # type: ignore[import-not-found]

        pool = await Library.create_pool(self.dsn, min_size=1, max_size=20)
        await install(pool)
        await pool.close()

    async def open(self) -> None:
        await self._start(queues={})

    async def close(self) -> None:
        await self.oban.stop()
        await self.pool.close()

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.oban.enqueue(self.workers[handler].new({"n": number}))

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        worker = self.workers[handler]
        return await self.oban.enqueue_many([worker.new({"n": number}) for number in numbers])

    async def work(self, load: Load, probe: Probe) -> None:
        await self._start(queues={"default": load.slots or 200}, probe=probe)
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        await told.wait()
        await self.close()

    async def _start(self, queues: dict[str, int], probe: Probe | None = None) -> None:
        from oban import Oban as Library

        functions = handlers(probe) if probe else {}
        self.workers = {name: _worker(name, functions.get(name)) for name in ("noop", "sleep")}
        self.pool: Any = await Library.create_pool(self.dsn, min_size=1, max_size=20)
        self.oban: Any = Library(pool=self.pool, queues=queues)
        await self.oban.start()


def _worker(name: str, function: Any) -> Any:
    from oban import worker

    async def process(self: object, job: Any) -> None:
        await function(job.args["n"])

    made = type(name.capitalize(), (), {"process": process, "__module__": __name__})
    return worker(queue="default")(made)


if __name__ == "__main__":
    import uvloop

    drive(Oban, uvloop.run)
