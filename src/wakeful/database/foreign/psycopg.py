"""psycopg 3: the caller's Connection or AsyncConnection."""

from __future__ import annotations

from typing import TypeVar

import psycopg

from wakeful.database.fetch import afetch, fetch
from wakeful.database.foreign.stack import closed, wrong_kind
from wakeful.statements.statement import Statement

T = TypeVar("T")


def run(conn: object, statement: Statement[T]) -> T:
    """Run it in the connection's current transaction; psycopg begins one unless in autocommit mode."""
    if isinstance(conn, psycopg.AsyncConnection):
        raise wrong_kind(conn, "Await the async form of this call with it, or pass a psycopg.Connection.")
    if not isinstance(conn, psycopg.Connection):
        raise wrong_kind(conn, "Pass the psycopg.Connection itself.")
    if conn.closed:
        raise closed()
    return fetch(conn, statement)


async def arun(conn: object, statement: Statement[T]) -> T:
    """Run it in the connection's current transaction; psycopg begins one unless in autocommit mode."""
    if isinstance(conn, psycopg.Connection):
        raise wrong_kind(conn, "Use the sync form of this call with it, or pass a psycopg.AsyncConnection.")
    if not isinstance(conn, psycopg.AsyncConnection):
        raise wrong_kind(conn, "Pass the psycopg.AsyncConnection itself.")
    if conn.closed:
        raise closed()
    return await afetch(conn, statement)
