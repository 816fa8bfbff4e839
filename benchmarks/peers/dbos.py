"""DBOS: durable workflows, started from a queue that is polled."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

POLL_SECONDS = 0.05

SYSTEM = System(
    name="dbos",
    title="DBOS",
    kind="peer",
    module="benchmarks.peers.dbos",
    home=Python(("dbos",)),
    settings=f"worker concurrency 50, polled every {POLL_SECONDS * 1000:.0f} ms, pool of 20; no bulk enqueue",
    unfinished="select exists (select from dbos.workflow_status where status in ('ENQUEUED', 'PENDING', 'DELAYED'))",
    jobs=3_000,
)


class Dbos(Driver):
    chunk = 200

    async def setup(self) -> None:
        library = self._launch(None)
        await library.register_queue_async("bench", worker_concurrency=50, polling_interval_sec=POLL_SECONDS)
        library.destroy()

    async def open(self) -> None:
        from dbos import DBOSClient  # type: ignore[import-not-found]

        self.client: Any = DBOSClient(system_database_url=self.dsn)

    async def close(self) -> None:
        self.client.destroy()

    async def enqueue(self, handler: Handler, number: int) -> object:
        options = {"queue_name": "bench", "workflow_name": handler, "app_version": "1"}
        return await self.client.enqueue_async(options, number)

    async def work(self, load: Load, probe: Probe) -> None:
        library = self._launch(probe)
        await library.register_queue_async(
            "bench", worker_concurrency=load.slots or 50, polling_interval_sec=POLL_SECONDS
        )
        await asyncio.Event().wait()

    def _launch(self, probe: Probe | None) -> Any:
        from dbos import DBOS

        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.dsn,
                "log_level": "ERROR",
                "sys_db_pool_size": 20,
                "application_version": "1",
                "run_admin_server": False,
            }
        )
        for name, function in handlers(probe).items() if probe else ():
            if name != "sync":
                DBOS.workflow(name=name)(function)
        DBOS.launch()
        return DBOS


if __name__ == "__main__":
    drive(Dbos)
    # Its background threads would keep the process alive.
    os._exit(0)
