"""Pooled async connections: a pool for each event loop, since a connection belongs to its loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from copy import copy
from typing import Generic, TypeVar
from weakref import finalize

import psycopg

from wakeful.database.connect import aconnect
from wakeful.database.fetch import aanswer
from wakeful.database.notices import listen_to
from wakeful.database.pool import WAIT_SECONDS, exhausted, pauses
from wakeful.database.quick import AsyncQuickConnection
from wakeful.database.shelf import Kept, Shelf
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable

T = TypeVar("T")

AsyncConnection = AsyncQuickConnection
AsyncCheck = Callable[[AsyncConnection], Awaitable[None]]


class AsyncPool:
    """Async connections in autocommit mode, in whichever event loop asks. Closed loops are forgotten.

    It starts no task: a loop that ends, or is closed with no word to the pool, leaves nothing that runs.
    """

    def __init__(
        self, dsn: str, *, size: int = 4, wait_seconds: float = WAIT_SECONDS, check: AsyncCheck | None = None
    ) -> None:
        """`check` is run once a loop, on its first connection, before it is handed out."""
        self._dsn = dsn
        self._size = size
        self._wait_seconds = wait_seconds
        self._check = check
        self._begin()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection for as long as the block lasts. Waits when all are in use, or the server is away."""
        mine = self._of_this_loop()
        if not mine.is_open:
            await self._open(mine)
        await self._enter(mine.room)
        try:
            kept = mine.shelf.take() or await self._connected_again()
            try:
                yield kept.conn
            finally:
                mine.shelf.put(kept)
        finally:
            mine.room.release()

    def send_now(self, statement: Statement[T]) -> UnderWay[T] | None:
        """Send it on a connection that lies ready, if that takes no waiting. None: nothing was done."""
        mine = self._loops.get(asyncio.get_running_loop())
        if mine is None or self._pid != os.getpid() or mine.room.locked():
            return None
        kept = mine.shelf.take()
        if kept is None:
            return None
        try:
            sent = kept.conn.send_now(statement)
        except psycopg.Error:
            # Lost a moment ago: who asks for a connection gets another one.
            sent = False
        if not sent:
            mine.shelf.put(kept)
            return None
        _enter_now(mine.room)
        return UnderWay(statement, kept, mine)

    def close(self) -> None:
        """Close the connections of the running loop, and of loops that are closed. Idempotent."""
        mine = self._loops.pop(asyncio.get_running_loop(), None)
        self._forget_closed_loops()
        if mine is not None:
            mine.shelf.close()

    def abandon(self) -> None:
        """Hang up on every loop's connections, from sync code, once no loop runs any more."""
        _hang_up(self._loops)

    def _begin(self) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self._pid = os.getpid()
        # Also run at the end of the process, so that the server hears of it.
        finalize(self, _hang_up, self._loops)

    def _of_this_loop(self) -> _LoopPool:
        if self._pid != os.getpid():
            self._begin()
        loop = asyncio.get_running_loop()
        mine = self._loops.get(loop)
        if mine is None:
            self._forget_closed_loops()
            mine = self._loops[loop] = _LoopPool(self._size)
        return mine

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in list(self._loops) if loop.is_closed()]:
            # Another thread may have forgotten it meanwhile.
            forgotten = self._loops.pop(loop, None)
            if forgotten is not None:
                forgotten.shelf.close()

    async def _open(self, mine: _LoopPool) -> None:
        failures = mine.failures
        async with mine.opening:
            if mine.is_open:
                return
            if mine.failure is not None and mine.failures > failures:
                # It failed for who came first while this one waited: trying one after the other takes for ever.
                raise copy(mine.failure)
            try:
                # The first tells at once why there is none: only who had one before waits for the next.
                mine.shelf.put(await self._connected(self._check))
            except Exception as error:  # Whatever it is, who waits is told of it too.
                mine.failures, mine.failure = mine.failures + 1, error
                raise
            mine.is_open = True

    async def _enter(self, room: asyncio.Semaphore) -> None:
        if not room.locked():
            await room.acquire()
            return
        try:
            async with asyncio.timeout(self._wait_seconds):
                await room.acquire()
        except TimeoutError:
            raise exhausted(self._size, self._wait_seconds) from None

    async def _connected(self, check: AsyncCheck | None = None) -> Kept[AsyncConnection]:
        conn = await aconnect(self._dsn)
        try:
            if check:
                await check(conn)
        # Refused, cancelled or lost: nobody else would close it.
        except BaseException:
            await conn.close()
            raise
        listen_to(conn)
        return Kept(conn)

    async def _connected_again(self) -> Kept[AsyncConnection]:
        for pause in pauses(self._wait_seconds):
            try:
                return await self._connected()
            except DatabaseUnavailable:
                await asyncio.sleep(pause)
        return await self._connected()


class _LoopPool:
    def __init__(self, size: int) -> None:
        self.shelf = Shelf[AsyncConnection]()
        self.room = asyncio.Semaphore(size)
        self.opening = asyncio.Lock()
        self.is_open = False
        self.failures = 0
        self.failure: Exception | None = None


class UnderWay(Generic[T]):
    """A statement that was sent, on a connection that is taken until `answer` has returned or `abandon` is called."""

    def __init__(self, statement: Statement[T], kept: Kept[AsyncConnection], pool: _LoopPool) -> None:
        self.statement = statement
        self._kept = kept
        self._pool = pool

    async def answer(self) -> T:
        """Wait for its answer, and let go of the connection."""
        try:
            return await aanswer(self._kept.conn, self.statement)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the connection, which is closed if the answer has not been read."""
        self._pool.shelf.put(self._kept)
        self._pool.room.release()


def _enter_now(room: asyncio.Semaphore) -> None:
    """Acquire one that is not locked, which waits for nothing."""
    with suppress(StopIteration):
        room.acquire().send(None)


def _hang_up(loops: dict[asyncio.AbstractEventLoop, _LoopPool]) -> None:
    with suppress(KeyError):
        while True:
            loops.popitem()[1].shelf.close()
