"""A connection that only listens. It is never in a transaction, so the server's queue of notices can move on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from wakeful.database.connect import aconnect
from wakeful.database.fetch import afetch, translated
from wakeful.statements.statement import Statement
from wakeful.values.errors import Refused, SchemaMismatch


class Heard(NamedTuple):
    """A notification."""

    channel: str
    payload: str


class Ear:
    """One LISTEN connection."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self._conn = conn

    @classmethod
    async def open(cls, dsn: str, channels: Sequence[str], attend: Statement[None] | None = None) -> Ear:
        """Connect and subscribe; whatever is notified after this returns is heard. `attend` is run before."""
        conn = await aconnect(dsn, name="wakeful listener")
        try:
            if attend is not None:
                # What is refused there, or is not there at all, is done without.
                with suppress(Refused, SchemaMismatch):
                    await afetch(conn, attend)
            await conn.execute(sql.SQL("; ").join(sql.SQL("listen {}").format(sql.Identifier(c)) for c in channels))
        # Cancelled too: nobody else would close it.
        except BaseException as error:
            await conn.close()
            if isinstance(error, psycopg.Error):
                raise translated(error) from error
            raise
        return cls(conn)

    async def listen(self, hear: Callable[[Heard], None]) -> None:
        """Pass on what is notified, as it comes, until cancelled; ends with DatabaseUnavailable when the link breaks.

        What `hear` raises ends this too. psycopg's own wait looks up ten times a second, and takes the socket out of
        the loop at every notice.
        """
        pgconn, encoding, loop = self._conn.pgconn, self._conn.info.encoding, asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def read() -> None:
            try:
                pgconn.consume_input()
                while notice := pgconn.notifies():
                    hear(Heard(notice.relname.decode(encoding), notice.extra.decode(encoding)))
            except Exception as error:  # Whatever it is, who waits for the end is told of it.
                if not over.done():
                    over.set_exception(error)

        # Kept, because a connection that is lost has none any more.
        socket = pgconn.socket
        try:
            # What came along with the answer to LISTEN.
            async for earlier in self._conn.notifies(timeout=0):
                hear(Heard(earlier.channel, earlier.payload))
            loop.add_reader(socket, read)
            await over
        except psycopg.Error as error:
            raise translated(error) from error
        finally:
            loop.remove_reader(socket)

    async def close(self) -> None:
        """Hang up. Idempotent."""
        await self._conn.close()
