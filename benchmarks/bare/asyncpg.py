"""asyncpg, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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

_numbered = cache(numbered)


class Asyncpg(BareDriver):
    async def connect(self) -> Any:
        return await asyncpg.connect(self.dsn)

    async def run(self, conn: Any, statement: str, *values: object) -> Sequence[Any]:
        # Its connections keep the statements that they have seen prepared.
        rows: Sequence[Any] = await conn.fetch(_numbered(statement), *values)
        return rows

    async def listen(self, conn: Any, woken: asyncio.Event) -> None:
        await conn.add_listener("bare", lambda *_: woken.set())
        await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    drive(Asyncpg, uvloop.run)
