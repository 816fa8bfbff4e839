"""Awa: a Rust core with Python handlers, on its append-only queue storage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

SYSTEM = System(
    name="awa",
    title="Awa",
    kind="peer",
    module="benchmarks.peers.awa",
    home=Python(("awa-pg",)),
    settings="queue storage, 256 workers; bulk by COPY",
    jobs=30_000,
)

STORAGE = "awa_storage"


@dataclass
class Noop:
    n: int


@dataclass
class Sleep:
    n: int


KINDS: dict[Handler, type[Noop] | type[Sleep]] = {"noop": Noop, "sleep": Sleep}


class Awa(Driver):
    def __init__(self) -> None:
        super().__init__()
        import awa  # type: ignore[import-not-found]

        self.client: Any = awa.AsyncClient(self.dsn)

    async def setup(self) -> None:
        await self.client.migrate()
        await self.client.install_queue_storage(schema=STORAGE, reset=True)

    async def close(self) -> None:
        await self.client.close()

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.client.insert(KINDS[handler](number), queue="bench")

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        return await self.client.enqueue_many_copy([KINDS[handler](n) for n in numbers], queue="bench")

    async def work(self, load: Load, probe: Probe) -> None:
        functions = handlers(probe)
        for name, kind in KINDS.items():
            self.client.task(kind, queue="bench")(_of_job(functions[name]))
        await self.client.start([("bench", load.slots or 256)], queue_storage_schema=STORAGE)
        await asyncio.Event().wait()


def _of_job(function: Any) -> Any:
    async def run(job: Any) -> None:
        await function(job.args.n)

    return run


if __name__ == "__main__":
    drive(Awa)
