"""Transactions of callers' own: one bare row, or one job, in each, by psycopg and by SQLAlchemy."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from typing import Any

import psycopg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from benchmarks.bare.statements import INSERT_ONE, make_tables
from benchmarks.driver.drive import Driver, drive
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.driver.shared import Shared
from benchmarks.system import Own, System
from wakeful.values.identity import new_id

CONNECTIONS = 20

_NAMED_INSERT = text(
    INSERT_ONE.replace("%s::uuid", "cast(:id as uuid)").replace("%s::jsonb", "cast(:payload as jsonb)")
)


def _system(stack: str, way: str) -> System:
    return System(
        name=f"{way}-in-{stack}",
        title=f"{'wakeful' if way == 'job' else 'bare insert'} in {'psycopg' if stack == 'psycopg' else 'SQLAlchemy'}",
        kind="bare",
        module="benchmarks.ours.inside",
        home=Own(),
        settings="20 connections, begin and commit by the caller",
        environment=(("BENCH_STACK", stack), ("BENCH_WAY", way)),
        only=frozenset(("inside",)),
    )


SYSTEMS = tuple(_system(stack, way) for stack in ("psycopg", "sqlalchemy") for way in ("row", "job"))


class Inside(Driver):
    """Begins, lets the way act, commits."""

    def __init__(self) -> None:
        super().__init__()
        self.makes_jobs = os.environ["BENCH_WAY"] == "job"
        if self.makes_jobs:
            from wakeful import Wakeful

            async def noop(n: int) -> None:
                """Never run."""

            self.task: Any = Wakeful(self.dsn).task(name="noop")(noop)

    async def setup(self) -> None:
        make_tables(self.dsn)

    async def work(self, load: Load, probe: Probe) -> None:
        raise NotImplementedError

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.connections.use(lambda conn: self.transact(conn, number))

    @abstractmethod
    async def transact(self, conn: Any, number: int) -> object:
        """One transaction."""

    async def open(self) -> None:
        self.connections = Shared([await self.connect() for _ in range(CONNECTIONS)])

    @abstractmethod
    async def connect(self) -> Any:
        """What a caller would hold."""

    async def close(self) -> None:
        for conn in self.connections.all:
            await conn.close()


class InPsycopg(Inside):
    async def connect(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(self.dsn)

    async def transact(self, conn: psycopg.AsyncConnection[Any], number: int) -> object:
        async with conn.transaction():
            if self.makes_jobs:
                return await self.task.using(conn=conn).aenqueue(n=number)
            id = new_id()
            return await conn.execute(INSERT_ONE, [id, id, json.dumps({"n": number})])


class InSqlalchemy(Inside):
    async def connect(self) -> AsyncSession:
        address = self.dsn.replace("postgresql://", "postgresql+psycopg://")
        return AsyncSession(create_async_engine(address, pool_size=1, max_overflow=0))

    async def transact(self, conn: AsyncSession, number: int) -> object:
        async with conn.begin():
            if self.makes_jobs:
                return await self.task.using(conn=conn).aenqueue(n=number)
            payload = json.dumps({"n": number})
            return await conn.execute(_NAMED_INSERT, {"id": new_id(), "payload": payload})


if __name__ == "__main__":
    import uvloop

    drive(InPsycopg if os.environ["BENCH_STACK"] == "psycopg" else InSqlalchemy, uvloop.run)
