"""The next test's database, made by the server while this test runs."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import ExecStatus


class Ahead:
    """One statement under way on a connection of its own. No thread: the server works, and the answer is read later."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        self._name: str | None = None

    def begin(self, name: str, statement: psycopg.sql.Composed) -> None:
        """Send the statement that makes the database, and go on."""
        self._name = name
        self._conn.pgconn.send_query(statement.as_bytes(self._conn))

    def take(self) -> str | None:
        """The database that was begun, once it is there; None when none was, or it could not be made."""
        name, self._name = self._name, None
        if name is None:
            return None
        made = True
        while (result := self._conn.pgconn.get_result()) is not None:
            made = made and result.status == ExecStatus.COMMAND_OK
        return name if made else None

    def close(self) -> str | None:
        """Hang up; the database that nobody took, for whoever drops it."""
        left = None if self._conn.closed else self.take()
        self._conn.close()
        return left
