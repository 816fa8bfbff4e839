"""The two runners: one Statement, on a sync or an async psycopg connection."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from wakeful.database.quick import AsyncQuickConnection, QuickConnection
from wakeful.database.sqlstates import ServerError, sentence, translate
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable, WakefulError

T = TypeVar("T")


def fetch(conn: psycopg.Connection[Any], statement: Statement[T]) -> T:
    """Run the statement in whatever transaction `conn` is in, and decode its rows. Never commits."""
    try:
        rows = conn.rows_of(statement) if isinstance(conn, QuickConnection) else None
        if rows is None:
            # A cursor class of our own choosing: the connection's may be a RawCursor, which has other placeholders.
            with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
                cursor.execute(statement.sql, statement.params, binary=True)
                rows = cursor.fetchall() if _may_have_rows(cursor) else []
    except psycopg.Error as error:
        raise translated(error, statement.sql) from error
    return statement.decode(rows)


async def afetch(conn: psycopg.AsyncConnection[Any], statement: Statement[T]) -> T:
    """Run the statement in whatever transaction `conn` is in, and decode its rows. Never commits."""
    try:
        rows = await conn.rows_of(statement) if isinstance(conn, AsyncQuickConnection) else None
        if rows is None:
            async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
                await cursor.execute(statement.sql, statement.params, binary=True)
                rows = await cursor.fetchall() if _may_have_rows(cursor) else []
    except psycopg.Error as error:
        raise translated(error, statement.sql) from error
    return statement.decode(rows)


async def aanswer(conn: AsyncQuickConnection, statement: Statement[T]) -> T:
    """The decoded rows of what `conn` has under way, by `send_now`."""
    try:
        rows = await conn.answer(statement)
    except psycopg.Error as error:
        raise translated(error, statement.sql) from error
    return statement.decode(rows)


def _may_have_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    # A caller's pipeline has no result until it is fetched, which asks the server for it and commits nothing.
    return cursor.pgresult is None or cursor.description is not None


def translated(error: psycopg.Error, asked: str = "") -> WakefulError | psycopg.Error:
    """Our error for psycopg's, or psycopg's own where that serves the caller better. `asked`: the statement."""
    diag, message = error.diag, str(error).split("\n", 1)[0]
    told = ServerError(error.sqlstate, diag.message_primary or message, diag.message_detail, diag.message_hint, asked)
    if ours := translate(told):
        return ours
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        return DatabaseUnavailable(f"{sentence(message)} Try again when the server is back.")
    return error
