"""A command's connection: found by the settings, checked against this version, and not kept waiting for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import psycopg

from wakeful.config import load
from wakeful.database.connect import connect
from wakeful.database.fetch import fetch
from wakeful.database.migrations import check_compatible
from wakeful.database.session import Database
from wakeful.statements.statement import Statement
from wakeful.values.errors import Refused

T = TypeVar("T")

READING_SECONDS: Final = 5


class Asking:
    """Runs statements on one connection."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn

    @property
    def process(self) -> int:
        """The server process as this connection was told of it; a pooler tells of itself."""
        return self._conn.info.backend_pid

    def run(self, statement: Statement[T]) -> T:
        """Its decoded answer, or an error of ours."""
        return fetch(self._conn, statement)


@contextmanager
def reading(dsn: str | None, patience: timedelta = timedelta(0)) -> Iterator[Asking]:
    """Ask statements that only read; what takes longer than a person waits, beyond `patience`, is stopped, and told."""
    seconds = READING_SECONDS + patience.total_seconds()
    with _connected(dsn) as conn:
        try:
            with conn.transaction():
                # One moment for all that is asked: a job that is settled meanwhile is not missed between two tables.
                conn.execute("set transaction isolation level repeatable read")
                conn.execute("select set_config('statement_timeout', %s, true)", [f"{seconds * 1000:.0f}ms"])
                yield Asking(conn)
        except psycopg.errors.QueryCanceled as error:
            raise Refused(
                f"The answer took longer than {seconds:g} s, so it was given up. "
                "Ask for less: --since 1h, --state, --task or a smaller --limit."
            ) from error


@contextmanager
def acting(dsn: str | None) -> Iterator[Asking]:
    """Run statements that change something, each committed by itself."""
    with _connected(dsn) as conn:
        yield Asking(conn)


@contextmanager
def _connected(dsn: str | None) -> Iterator[psycopg.Connection[Any]]:
    with connect(Database(load({"dsn": dsn}).database.dsn).dsn, name="wakeful cli") as conn:
        check_compatible(conn)
        yield conn
