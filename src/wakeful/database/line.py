"""A connection of one's own that is opened when it is needed, and again after it broke."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import psycopg

from wakeful.database.connect import aconnect, connect
from wakeful.database.fetch import aanswer, afetch, fetch
from wakeful.database.notices import listen_to
from wakeful.database.quick import AsyncQuickConnection
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable

T = TypeVar("T")


class AsyncLine:
    """Runs one statement at a time, each committed by itself. After DatabaseUnavailable the next call reconnects."""

    def __init__(self, dsn: str, name: str = "wakeful worker") -> None:
        self._dsn = dsn
        self._name = name
        self._conn: AsyncQuickConnection | None = None
        self._free = asyncio.Lock()
        self._under_way: Statement[Any] | None = None

    async def run(self, statement: Statement[T]) -> T:
        """Run and commit, behind whoever else is using it."""
        async with self._free:
            return await self._run(statement)

    def send_now(self, statement: Statement[object]) -> bool:
        """Send it, if that takes no waiting: then it is to be given to `run` next, which waits for its answer.

        False: nothing was done.
        """
        conn = self._conn
        if conn is None or self._free.locked() or self._under_way is not None:
            return False
        try:
            sent = conn.send_now(statement)
        except psycopg.Error:
            # It is lost, as whoever uses it next will find.
            return False
        self._under_way = statement if sent else None
        return sent

    async def _run(self, statement: Statement[T]) -> T:
        sent, self._under_way = self._under_way, None
        if sent is not None and sent is not statement:
            # Nobody came for the answer.
            await self.close()
        if self._conn is None or self._conn.closed:
            self._conn = await aconnect(self._dsn, name=self._name)
            listen_to(self._conn)
        conn = self._conn
        try:
            return await (aanswer(conn, statement) if sent is statement else afetch(conn, statement))
        except DatabaseUnavailable:
            await self.close()
            raise
        except BaseException:
            # Cancelled halfway, or a protocol error: whatever state the connection is in, it is not ours to guess.
            if conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                await self.close()
            raise

    async def close(self) -> None:
        """Hang up; the next call opens a connection again. Idempotent."""
        if self._conn is not None:
            conn, self._conn = self._conn, None
            await conn.close()


class Line:
    """The same for a thread."""

    def __init__(self, dsn: str, name: str = "wakeful worker") -> None:
        self._dsn = dsn
        self._name = name
        self._conn: psycopg.Connection[Any] | None = None

    def run(self, statement: Statement[T]) -> T:
        """Run and commit."""
        if self._conn is None or self._conn.closed:
            self._conn = connect(self._dsn, name=self._name)
            listen_to(self._conn)
        try:
            return fetch(self._conn, statement)
        except DatabaseUnavailable:
            self.close()
            raise

    def close(self) -> None:
        """Hang up; the next call opens a connection again. Idempotent."""
        if self._conn is not None:
            conn, self._conn = self._conn, None
            conn.close()
