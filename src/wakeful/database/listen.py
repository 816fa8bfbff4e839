"""A connection that only listens. It is never in a transaction, so the server's queue of notices can move on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import psycopg
from psycopg import sql

from wakeful.database.connect import aconnect
from wakeful.database.fetch import translated


class Ear:
    """One LISTEN connection."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self._conn = conn

    @classmethod
    async def open(cls, dsn: str, channels: Sequence[str]) -> Ear:
        """Connect and subscribe; whatever is notified after this returns is heard."""
        conn = await aconnect(dsn, name="wakeful listener")
        try:
            await conn.execute(sql.SQL("; ").join(sql.SQL("listen {}").format(sql.Identifier(c)) for c in channels))
        # Cancelled too: nobody else would close it.
        except BaseException as error:
            await conn.close()
            if isinstance(error, psycopg.Error):
                raise translated(error) from error
            raise
        return cls(conn)

    async def payloads(self) -> AsyncIterator[str]:
        """What is notified, as it comes; ends with DatabaseUnavailable when the link breaks.

        psycopg's own wait looks up ten times a second, and takes the socket out of the loop at every notice.
        """
        try:
            # What came along with the answer to LISTEN.
            async for notice in self._conn.notifies(timeout=0):
                yield notice.payload
            async with aclosing(self._arrivals()) as arrivals:
                async for payload in arrivals:
                    yield payload
        except psycopg.Error as error:
            raise translated(error) from error

    async def _arrivals(self) -> AsyncGenerator[str]:
        pgconn, encoding = self._conn.pgconn, self._conn.info.encoding
        readable, loop = asyncio.Event(), asyncio.get_running_loop()
        # Kept, because a connection that is lost has none any more.
        socket = pgconn.socket
        loop.add_reader(socket, readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                pgconn.consume_input()
                while notice := pgconn.notifies():
                    yield notice.extra.decode(encoding)
        finally:
            loop.remove_reader(socket)

    async def close(self) -> None:
        """Hang up. Idempotent."""
        await self._conn.close()
