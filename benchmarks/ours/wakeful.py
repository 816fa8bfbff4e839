"""wakeful, through `from wakeful import Wakeful` alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Own, System

SYSTEM = System(
    name="wakeful",
    title="wakeful",
    kind="ours",
    module="benchmarks.ours.wakeful",
    home=Own(),
    settings="100 slots, history kept, fenced, uvloop",
    unfinished="""select exists (select from wakeful.job where state = 1)
        or exists (select from wakeful.job where state = 2)""",
    handlers=frozenset(("noop", "sleep", "sync", "hold")),
    schedules=True,
)

SLOTS = {"noop": 100, "sleep": 500, "sync": 20, "hold": 2}


OBSERVED = "BENCH_OBSERVED"


def observe(app: Any) -> None:
    """Logs at INFO as JSON, metrics, and tracing that goes nowhere."""
    from wakeful.edges.logs import set_up
    from wakeful.edges.tracing.opentelemetry import Tracing
    from wakeful.observe.measures import Measures

    set_up("json", "info", open(os.devnull, "w"))  # noqa: SIM115
    app.observe(Measures())
    app.observe(Tracing())


class Ours(Driver):
    def __init__(self) -> None:
        super().__init__()
        from wakeful import Wakeful

        self.app = Wakeful(self.dsn)

    async def setup(self) -> None:
        program = Path(sys.executable).parent / "wakeful"
        migration = await asyncio.create_subprocess_exec(program, "migrate", "up", "--dsn", self.dsn)
        if await migration.wait():
            raise SystemExit("wakeful migrate up failed")

    async def open(self) -> None:
        self.tasks = self._tasks(None)

    async def close(self) -> None:
        await self.app.aclose()

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.tasks[handler].aenqueue(n=number)

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        return await self.tasks[handler].aenqueue_many([{"n": number} for number in numbers])

    async def enqueue_at(self, handler: Handler, number: int, moment: datetime) -> object:
        return await self.tasks[handler].using(run_at=moment).aenqueue(n=number)

    async def work(self, load: Load, probe: Probe) -> None:
        self._tasks(probe)
        if os.environ.get(OBSERVED):
            observe(self.app)
        worker = self.app.worker(concurrency=load.slots or SLOTS[load.handler])
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.arun()

    def _tasks(self, probe: Probe | None) -> dict[Handler, Any]:
        functions = handlers(probe or Probe())
        return {name: self.app.task(name=name)(function) for name, function in functions.items()}


if __name__ == "__main__":
    import uvloop

    drive(Ours, uvloop.run)
