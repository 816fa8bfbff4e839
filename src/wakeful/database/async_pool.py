"""Pooled async connections: one pool for each event loop, since a connection belongs to its loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from wakeful.database.connect import aconfigure, aconnect, connection_options
from wakeful.database.notices import listen_to
from wakeful.database.pool import WAIT_SECONDS, exhausted, is_alive
from wakeful.values.errors import DatabaseUnavailable

AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]
AsyncCheck = Callable[[AsyncConnection], Awaitable[None]]


class AsyncPool:
    """Async connections in autocommit mode, in whichever event loop asks. Closed loops are forgotten."""

    def __init__(
        self, dsn: str, *, size: int = 4, wait_seconds: float = WAIT_SECONDS, check: AsyncCheck | None = None
    ) -> None:
        """`check` is run once a loop, on a connection of its own, before the first one is handed out."""
        self._dsn = dsn
        self._size = size
        self._wait_seconds = wait_seconds
        self._check = check
        self._loops: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self._pid = os.getpid()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection for as long as the block lasts. Waits when all are in use, or the server is away."""
        pool = await self._of_this_loop().opened()
        conn = await self._borrow(pool)
        try:
            yield conn
        finally:
            await pool.putconn(conn)

    async def close(self) -> None:
        """Close the connections of this loop, and of loops that are closed. Idempotent."""
        mine = self._loops.pop(asyncio.get_running_loop(), None)
        self._forget_closed_loops()
        if mine and self._pid == os.getpid():
            await mine.close()

    def abandon(self) -> None:
        """Hang up on every loop's connections, from sync code, once no loop runs any more."""
        for pool in list(self._loops.values()):
            pool.hang_up()
        self._loops.clear()

    def _of_this_loop(self) -> _LoopPool:
        if self._pid != os.getpid():
            # A forked child leaves the parent's sockets alone.
            self._loops, self._pid = {}, os.getpid()
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._forget_closed_loops()
            self._loops[loop] = _LoopPool(self._dsn, self._size, self._wait_seconds, self._check)
        return self._loops[loop]

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in list(self._loops) if loop.is_closed()]:
            self._loops.pop(loop).hang_up()

    async def _borrow(self, pool: AsyncConnectionPool[AsyncConnection]) -> AsyncConnection:
        try:
            for _ in range(self._size):
                conn = await pool.getconn()
                if is_alive(conn):
                    return conn
                await pool.putconn(conn)
            return await pool.getconn()
        except PoolTimeout as error:
            raise await self._why() from error

    async def _why(self) -> DatabaseUnavailable:
        try:
            await (await aconnect(self._dsn)).close()
        except DatabaseUnavailable as reason:
            return reason
        return exhausted(self._size, self._wait_seconds)


class _LoopPool:
    def __init__(self, dsn: str, size: int, wait_seconds: float, check: AsyncCheck | None) -> None:
        self._dsn = dsn
        self._check = check
        self._lock = asyncio.Lock()
        self._open = False
        self._made: WeakSet[AsyncConnection] = WeakSet()
        self._pool: AsyncConnectionPool[AsyncConnection] = AsyncConnectionPool(
            kwargs=connection_options(dsn),
            min_size=0,
            max_size=size,
            timeout=wait_seconds,
            configure=self._configure,
            num_workers=1,
            name="wakeful",
            open=False,
        )

    async def opened(self) -> AsyncConnectionPool[AsyncConnection]:
        if self._open:
            return self._pool
        async with self._lock:
            if not self._open:
                # A pool retries and keeps the reason to itself: a connection of our own tells it at once.
                async with await aconnect(self._dsn) as conn:
                    if self._check:
                        await self._check(conn)
                await self._pool.open()
                self._open = True
        return self._pool

    async def close(self) -> None:
        await self._pool.close()

    def hang_up(self) -> None:
        """End the connections without their loop, which is closed and can run nothing more."""
        for conn in list(self._made):
            conn.pgconn.finish()

    async def _configure(self, conn: AsyncConnection) -> None:
        self._made.add(conn)
        await aconfigure(conn)
        listen_to(conn)
