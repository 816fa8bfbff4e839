"""Absurd: durable tasks in SQL functions, polled."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.driver.shared import Shared
from benchmarks.system import Python, System

POLL_SECONDS = 0.25

SYSTEM = System(
    name="absurd",
    title="Absurd",
    kind="peer",
    module="benchmarks.peers.absurd",
    home=Python(("absurd-sdk", "absurdctl")),
    settings=f"concurrency 50, batch of 50, polled every {POLL_SECONDS * 1000:.0f} ms; no bulk enqueue",
    unfinished="select exists (select from absurd.t_default where state in ('pending', 'running', 'sleeping'))",
    jobs=5_000,
)


class Absurd(Driver):
    chunk = 20

    async def setup(self) -> None:
        installer = Path(sys.executable).parent / "absurdctl"
        for command in (["init"], ["create-queue", "default"]):
            made = await asyncio.create_subprocess_exec(installer, *command, "-d", self.dsn)
            if await made.wait():
                raise SystemExit(f"absurdctl {command[0]} failed")

    async def open(self) -> None:
        # A client has one connection.
        self.clients = Shared([self._client() for _ in range(20)])

    async def close(self) -> None:
        for client in self.clients.all:
            await client.close()

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.clients.use(lambda client: client.spawn(handler, {"n": number}, queue="default"))

    async def work(self, load: Load, probe: Probe) -> None:
        client = self._client()
        functions = handlers(probe)
        for name in ("noop", "sleep"):
            client.register_task(name=name)(_of_params(functions[name]))
        slots = load.slots or 50
        await client.start_worker(concurrency=slots, batch_size=slots, poll_interval=POLL_SECONDS)

    def _client(self) -> Any:
        from absurd_sdk import AsyncAbsurd  # type: ignore[import-not-found]

        return AsyncAbsurd(self.dsn)


def _of_params(function: Any) -> Any:
    async def run(params: dict[str, int], context: object) -> None:
        await function(params["n"])

    return run


if __name__ == "__main__":
    drive(Absurd)
