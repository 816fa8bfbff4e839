"""asyncpg: the caller's Connection, or the proxy that its pool hands out."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import asyncpg  # type: ignore[import-untyped]
from asyncpg.pool import PoolConnectionProxy  # type: ignore[import-untyped]

from wakeful.database.foreign.numbered import numbered
from wakeful.database.foreign.stack import closed, wrong_kind
from wakeful.database.sqlstates import ServerError, translate
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable, InvalidOption

T = TypeVar("T")


def run(conn: object, statement: Statement[T]) -> T:
    """asyncpg has no sync connections, so this always refuses."""
    raise wrong_kind(conn, "asyncpg is async only: await the async form of this call.")


async def arun(conn: object, statement: Statement[T]) -> T:
    """Run it in the connection's transaction; outside `async with conn.transaction()` it commits at once."""
    if not isinstance(conn, asyncpg.Connection | PoolConnectionProxy):
        raise wrong_kind(conn, "Pass a connection: `async with pool.acquire() as conn`.")
    # Before anything is sent: asyncpg itself fails while it waits for the answer, when the job is there already.
    if getattr(conn, "_loop", None) not in (None, asyncio.get_running_loop()):
        raise InvalidOption("conn", "belongs to another event loop. Pass a connection that was made in this one.")
    text, values = numbered(statement)
    try:
        rows = await conn.fetch(text, *values)
    except asyncpg.PostgresError as error:
        raise translated(error) from error
    except asyncpg.InterfaceError as error:
        if "closed" in str(error) or "released" in str(error):
            raise closed() from error
        raise
    except OSError as error:
        raise DatabaseUnavailable("The connection was lost. Try again with a new one.") from error
    return statement.decode(rows)


def translated(error: asyncpg.PostgresError) -> Exception:
    """Our error for asyncpg's, or asyncpg's own where that serves the caller better."""
    told = ServerError(error.sqlstate, str(error.message), error.detail, error.hint)
    return translate(told) or error
