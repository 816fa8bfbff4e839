"""A connection that only listens, for a thread which waits for more than this one connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from wakeful.database.connect import connect
from wakeful.database.fetch import translated


class ThreadedEar:
    """One LISTEN connection. Once open it never blocks: wait until `fileno()` can be read, then `take()`."""

    def __init__(self, dsn: str, channels: Sequence[str]) -> None:
        """Connect and subscribe; whatever is notified after this returns is heard."""
        self._conn: psycopg.Connection[Any] = connect(dsn, name="wakeful listener")
        try:
            listens = [sql.SQL("listen {}").format(sql.Identifier(channel)) for channel in channels]
            self._conn.execute(sql.SQL("; ").join(listens))
        except psycopg.Error as error:
            self._conn.close()
            raise translated(error) from error

    def fileno(self) -> int:
        """What to wait for."""
        return self._conn.fileno()

    def take(self) -> list[str]:
        """The payloads that have come; DatabaseUnavailable when the link is broken."""
        try:
            return [notice.payload for notice in self._conn.notifies(timeout=0)]
        except psycopg.Error as error:
            raise translated(error) from error

    def close(self) -> None:
        """Hang up. Idempotent."""
        self._conn.close()
