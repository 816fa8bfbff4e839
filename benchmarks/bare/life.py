"""A job's whole life by plain SQL: what any queue has to do, and nothing more."""

from __future__ import annotations

import asyncio
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from benchmarks.bare import statements as bare
from benchmarks.driver.drive import Driver, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.driver.shared import Shared
from wakeful.values.identity import new_id, new_ids

CONNECTIONS = 20
BATCH = 500


class BareDriver(Driver):
    """A driver's connections; how they are opened and used is left to it."""

    def __init__(self) -> None:
        super().__init__()
        self.notifies = "BENCH_NOTIFY" in os.environ
        # To hear of a job is to start it: nobody claims it.
        self.only_hears = os.environ.get("BENCH_NOTIFY") == "heard"
        self.insert = bare.INSERT_ONE_AND_NOTIFY if self.notifies else bare.INSERT_ONE

    @abstractmethod
    async def connect(self) -> Any:
        """A connection in autocommit mode."""

    @abstractmethod
    async def run(self, conn: Any, statement: str, *values: object) -> Sequence[Any]:
        """Run a prepared statement; its rows."""

    @abstractmethod
    async def listen(self, conn: Any, hear: Callable[[str], object]) -> None:
        """Hear the payload of every notification, for ever."""

    async def setup(self) -> None:
        bare.make_tables(self.dsn)

    async def open(self) -> None:
        self.connections = Shared([await self.connect() for _ in range(CONNECTIONS)])

    async def close(self) -> None:
        for conn in self.connections.all:
            await conn.close()

    async def enqueue(self, handler: Handler, number: int) -> object:
        id, payload = new_id(), json.dumps({"n": number})
        return await self.connections.use(lambda conn: self.run(conn, self.insert, id, id, payload))

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        if self.only_hears:
            return [await self.enqueue(handler, number) for number in numbers]
        payloads = [json.dumps({"n": number}) for number in numbers]
        conn = self.connections.all[0]
        await self.run(conn, bare.INSERT_MANY, new_ids(len(payloads)), payloads)
        if self.notifies:
            await self.run(conn, bare.NOTIFY)
        return None

    async def work(self, load: Load, probe: Probe) -> None:
        listener = await self.connect()
        if self.only_hears:
            return await self.listen(listener, lambda payload: probe.start(json.loads(payload)["n"]))
        noop = handlers(probe)["noop"]
        worker, woken = uuid4(), asyncio.Event()
        conn = await self.connect()
        listening = asyncio.create_task(self.listen(listener, lambda _: woken.set()))
        while not listening.done():
            woken.clear()
            rows = await self.run(conn, bare.CLAIM, load.batch or BATCH, worker)
            for _, payload in rows:
                await noop(json.loads(payload)["n"])
            if rows:
                await self.run(conn, bare.SETTLE, [row[0] for row in rows])
            elif self.notifies:
                await woken.wait()
            else:
                await asyncio.sleep(0.01)
        return None
