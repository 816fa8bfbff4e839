"""asyncpg, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from benchmarks.bare import psycopg
from benchmarks.bare.life import BareDriver
from benchmarks.bare.statements import numbered
from benchmarks.driver.drive import drive

SYSTEM = replace(psycopg.SYSTEM, name="bare-asyncpg", title="bare asyncpg", module="benchmarks.bare.asyncpg")
NOTIFYING = replace(
    psycopg.NOTIFYING,
    name="bare-asyncpg-notify",
    title="bare asyncpg, NOTIFY",
    module="benchmarks.bare.asyncpg",
)

HEARING = replace(
    NOTIFYING,
    name="bare-asyncpg-heard",
    title="bare asyncpg, NOTIFY, no claim",
    settings="an insert and a NOTIFY per connection; what is heard of is started, and claimed by nobody",
    environment=(("BENCH_NOTIFY", "heard"),),
    only=frozenset(("latency",)),
)

_numbered = cache(numbered)


class Asyncpg(BareDriver):
    async def connect(self) -> Any:
        return await asyncpg.connect(self.dsn)

    async def run(self, conn: Any, statement: str, *values: object) -> Sequence[Any]:
        # Its connections keep the statements that they have seen prepared.
        rows: Sequence[Any] = await conn.fetch(_numbered(statement), *values)
        return rows

    async def listen(self, conn: Any, hear: Callable[[str], object]) -> None:
        await conn.add_listener("bare", lambda *told: hear(told[-1]))
        await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    drive(Asyncpg, uvloop.run)
