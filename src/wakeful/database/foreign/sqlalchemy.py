"""SQLAlchemy 2: Session, Connection and their async forms, on psycopg or asyncpg.

Every statement goes through SQLAlchemy's own connection. On asyncpg the transaction begins with the first
statement that passes through there; one sent straight to the driver before that would commit by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, ResourceClosedError, UnboundExecutionError
from sqlalchemy.orm import Session, scoped_session

from wakeful.database.foreign.cause import translated
from wakeful.database.foreign.numbered import numbered
from wakeful.database.foreign.stack import closed, wrong_kind
from wakeful.statements.statement import Row, Statement
from wakeful.values.errors import DatabaseUnavailable, InvalidOption

T = TypeVar("T")


def run(conn: object, statement: Statement[T]) -> T:
    """Run it in the session's or the connection's transaction, which SQLAlchemy begins if need be."""
    if not isinstance(conn, Session | scoped_session | Connection):
        if _is_async(conn):
            raise wrong_kind(conn, "Await the async form of this call with it, or pass a Session.")
        raise wrong_kind(conn, "Pass a Session or a Connection: `with engine.begin() as conn`.")
    return statement.decode(_execute(conn, statement))


async def arun(conn: object, statement: Statement[T]) -> T:
    """Run it in the session's or the connection's transaction, which SQLAlchemy begins if need be."""
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    if isinstance(conn, async_scoped_session):
        conn = conn()
    if not isinstance(conn, AsyncSession | AsyncConnection):
        if isinstance(conn, Session | scoped_session | Connection):
            raise wrong_kind(conn, "Use the sync form of this call with it, or pass an AsyncSession.")
        raise wrong_kind(conn, "Pass an AsyncSession, or an AsyncConnection: `async with engine.begin()`.")
    return statement.decode(await conn.run_sync(_execute, statement))


def _execute(owner: Session | scoped_session[Any] | Connection, statement: Statement[Any]) -> list[Row]:
    try:
        connection = owner if isinstance(owner, Connection) else owner.connection()
        result = connection.exec_driver_sql(*_in_dialect(connection, statement))
        return cast("list[Row]", result.fetchall()) if result.returns_rows else []
    except ResourceClosedError as error:
        raise closed() from error
    except UnboundExecutionError as error:
        problem = "is a Session without one engine. Pass the connection: `session.connection(…)`."
        raise InvalidOption("conn", problem) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise DatabaseUnavailable("The connection was lost. Try again with a new one.") from error
        raise translated(error) from error


def _in_dialect(connection: Connection, statement: Statement[Any]) -> tuple[str, Mapping[str, Any] | tuple[Any, ...]]:
    dialect = connection.dialect
    if dialect.name == "postgresql" and dialect.paramstyle == "pyformat":
        return statement.sql, dict(statement.params)
    if dialect.name == "postgresql" and dialect.driver == "asyncpg":
        return numbered(statement)
    raise InvalidOption(
        "conn", f"runs on {dialect.name}+{dialect.driver}. Use postgresql+psycopg or postgresql+asyncpg."
    )


def _is_async(conn: object) -> bool:
    return any(base.__module__.startswith("sqlalchemy.ext.asyncio") for base in type(conn).__mro__)
