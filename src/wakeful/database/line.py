"""A connection of one's own that is opened when it is needed, and again after it broke."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import psycopg

from wakeful.database.connect import aconnect, connect
from wakeful.database.fetch import afetch, fetch
from wakeful.database.notices import listen_to
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable

T = TypeVar("T")


class AsyncLine:
    """Runs one statement at a time, each committed by itself. After DatabaseUnavailable the next call reconnects."""

    def __init__(self, dsn: str, name: str = "wakeful worker") -> None:
        self._dsn = dsn
        self._name = name
        self._conn: psycopg.AsyncConnection[Any] | None = None
        self._free = asyncio.Lock()

    async def run(self, statement: Statement[T]) -> T:
        """Run and commit, behind whoever else is using it."""
        async with self._free:
            return await self._run(statement)

    async def _run(self, statement: Statement[T]) -> T:
        if self._conn is None or self._conn.closed:
            self._conn = await aconnect(self._dsn, name=self._name)
            listen_to(self._conn)
        conn = self._conn
        try:
            return await afetch(conn, statement)
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
