"""psycopg, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from benchmarks.bare.life import BareDriver
from benchmarks.bare.statements import UNFINISHED
from benchmarks.driver.drive import drive
from benchmarks.system import Own, System

SYSTEM = System(
    name="bare-psycopg",
    title="bare psycopg",
    kind="bare",
    module="benchmarks.bare.psycopg",
    home=Own(),
    settings="an insert per connection, no NOTIFY; claims of 500, history kept, no fence",
    unfinished=UNFINISHED,
    only=frozenset(("enqueue", "bulk", "drain", "pinned", "pinned-10")),
)
NOTIFYING = replace(
    SYSTEM,
    name="bare-psycopg-notify",
    title="bare psycopg, NOTIFY",
    settings="an insert and a NOTIFY per connection; a claim at each notification",
    environment=(("BENCH_NOTIFY", "on"),),
    only=frozenset(("enqueue", "latency", "burst")),
)


class Psycopg(BareDriver):
    async def connect(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)

    async def run(self, conn: Any, statement: str, *values: object) -> Sequence[Any]:
        cursor = await conn.execute(statement.encode(), values, prepare=True)
        return await cursor.fetchall() if cursor.description else []

    async def listen(self, conn: Any, hear: Callable[[str], object]) -> None:
        await conn.execute("listen bare")
        async for notice in conn.notifies():
            hear(notice.payload)


if __name__ == "__main__":
    import uvloop

    drive(Psycopg, uvloop.run)
