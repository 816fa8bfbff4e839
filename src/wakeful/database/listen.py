"""A connection that only listens. It is never in a transaction, so the server's queue of notices can move on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
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
        """What is notified, as it comes; ends with DatabaseUnavailable when the link breaks."""
        try:
            async for notice in self._conn.notifies():
                yield notice.payload
        except psycopg.Error as error:
            raise translated(error) from error

    async def close(self) -> None:
        """Hang up. Idempotent."""
        await self._conn.close()
