"""A database as an app uses it: found, checked and connected to when the first statement is run."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

import psycopg

from wakeful.database.address import normalise_dsn
from wakeful.database.async_pool import AsyncConnection, AsyncPool, UnderWay
from wakeful.database.connect import connect
from wakeful.database.fetch import afetch, fetch, translated
from wakeful.database.migrations import acheck_compatible, check_compatible, up
from wakeful.database.pool import Connection, Pool
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable

T = TypeVar("T")

POOL_SIZE = 10


class Unanswered(DatabaseUnavailable):
    """The connection was lost before the answer came: whether the statement took effect is unknown."""


class Database:
    """Runs statements on pooled connections, each committed by itself. For any number of threads and loops.

    Without a DSN it is the embedded server's, started and migrated on first use: it is ours. A schema that
    does not fit is a SchemaMismatch before the first statement.
    """

    def __init__(self, dsn: str | None = None, *, pool_size: int = POOL_SIZE, directory: Path | None = None) -> None:
        """Does nothing yet. `directory` is the embedded server's."""
        self._given = dsn
        self._directory = directory
        self._pool_size = pool_size
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._dsn: str | None = None
        self._pool: Pool | None = None
        self._async_pool: AsyncPool | None = None

    @property
    def dsn(self) -> str:
        """The address; starts the embedded server where there is none, which blocks for a second."""
        return self._located()

    def run(self, statement: Statement[T]) -> T:
        """Run it in a transaction of its own, and decode its rows."""
        with self.connection() as conn, _answered():
            return fetch(conn, statement)

    def run_together(self, statements: Iterable[Statement[T]]) -> list[T]:
        """Run them in one transaction: all take effect or none does."""
        with self.transaction() as conn:
            return [fetch(conn, statement) for statement in statements]

    async def arun(self, statement: Statement[T]) -> T:
        """Run it in a transaction of its own, and decode its rows."""
        async with self.aconnection() as conn:
            with _answered():
                return await afetch(conn, statement)

    def asend_now(self, statement: Statement[T]) -> Awaited[T] | None:
        """Send it before anybody waits for anything; what comes back is to be awaited. None: nothing was done."""
        under_way = None if self._async_pool is None else self._async_pool.send_now(statement)
        return None if under_way is None else Awaited(under_way)

    async def arun_together(self, statements: Iterable[Statement[T]]) -> list[T]:
        """Run them in one transaction: all take effect or none does."""
        async with self.atransaction() as conn:
            return [await afetch(conn, statement) for statement in statements]

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection in a transaction that commits at the end of the block, or rolls back on an error."""
        with self.connection() as conn, _answered(), conn.transaction():
            yield conn

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction that commits at the end of the block, or rolls back on an error."""
        async with self.aconnection() as conn:
            with _answered():
                async with conn.transaction():
                    yield conn

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A pooled connection in autocommit mode. Waits when all are in use."""
        if self._pool is None or self._pid != os.getpid():
            self._located()
        assert self._pool is not None
        with self._pool.connection() as conn:
            yield conn

    @asynccontextmanager
    async def aconnection(self) -> AsyncIterator[AsyncConnection]:
        """A pooled connection of this event loop, in autocommit mode. Waits when all are in use."""
        if self._async_pool is None or self._pid != os.getpid():
            await self._alocated()
        assert self._async_pool is not None
        async with self._async_pool.connection() as conn:
            yield conn

    def close(self) -> None:
        """Close all connections; those of event loops only once no loop runs here. Idempotent."""
        if self._pool is not None:
            self._pool.close()
        if self._async_pool is not None and _running_loop() is None:
            self._async_pool.abandon()

    async def aclose(self) -> None:
        """Close the sync connections, and those of this event loop. Idempotent."""
        if self._async_pool is not None:
            self._async_pool.close()
        if self._pool is not None:
            await asyncio.to_thread(self._pool.close)

    async def _alocated(self) -> str:
        # Only the embedded server is worth a thread: a given address needs no input or output.
        return self._located() if self._given is not None else await asyncio.to_thread(self._located)

    def _located(self) -> str:
        if self._pid != os.getpid():
            # A forked child: a thread of the parent may have held the lock. The pools mind themselves.
            self._lock, self._pid = threading.Lock(), os.getpid()
        with self._lock:
            if self._dsn is None:
                dsn = normalise_dsn(self._given) if self._given is not None else _embedded(self._directory)
                self._pool = Pool(dsn, size=self._pool_size, check=check_compatible)
                self._async_pool = AsyncPool(dsn, size=self._pool_size, check=acheck_compatible)
                self._dsn = dsn
            return self._dsn


class Awaited(Generic[T]):
    """The answer to a statement that is under way: to be waited for, or given up."""

    def __init__(self, under_way: UnderWay[T]) -> None:
        self._under_way = under_way
        self.give_up = under_way.abandon

    async def answer(self) -> T:
        """Wait for it, and decode its rows."""
        with _answered():
            return await self._under_way.answer()


def _embedded(directory: Path | None) -> str:
    from wakeful.database.embedded import ensure

    dsn = ensure(directory).dsn
    with connect(dsn) as conn:
        up(conn)
    return dsn


@contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        # A COMMIT's own error comes as the driver raised it.
        ours = translated(error)
        if isinstance(ours, DatabaseUnavailable):
            raise Unanswered(ours.message) from error
        if ours is error:
            raise
        raise ours from error
    except DatabaseUnavailable as error:
        raise Unanswered(error.message) from error


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
