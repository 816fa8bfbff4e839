"""Connections of our own: quick to notice a dead link, and clear about why there is none."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from wakeful.database.address import describe, normalise_dsn, resolve_dsn
from wakeful.database.quick import AsyncQuickConnection, QuickConnection
from wakeful.values.errors import DatabaseUnavailable

__all__ = ["aconnect", "connect", "connection_options", "resolve_dsn", "unavailable"]

# A dead link is found within 15 s: after 5 s of silence, two probes 5 s apart. Keepalives rest while data is
# unacknowledged, so the user timeout covers a link that dies under a query.
_DEFAULTS: dict[str, str] = {
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "5",
    "keepalives_count": "2",
    "tcp_user_timeout": "15000",
    "connect_timeout": "10",
}


def connection_options(dsn: str, *, name: str = "wakeful") -> dict[str, Any]:
    """Keyword arguments for psycopg's connect; what the DSN itself says takes precedence."""
    given = conninfo_to_dict(normalise_dsn(dsn))
    return {
        **_DEFAULTS,
        "fallback_application_name": name,
        **given,
        "autocommit": True,
        "prepare_threshold": 5 if prepares() else None,
    }


def prepares() -> bool:
    """Whether statements may be prepared on the server: `WAKEFUL_PREPARE=off` says no, for old poolers."""
    return os.environ.get("WAKEFUL_PREPARE", "on").strip().lower() not in ("off", "0", "false", "no")


def connect(dsn: str, *, name: str = "wakeful") -> QuickConnection:
    """Open one connection in autocommit mode, or raise DatabaseUnavailable with a sentence."""
    try:
        conn = QuickConnection.connect(**connection_options(dsn, name=name))
        try:
            configure(conn)
        # Lost at once: nobody else would close it.
        except BaseException:
            conn.close()
            raise
    except psycopg.OperationalError as error:
        raise unavailable(dsn, error) from error
    return conn


async def aconnect(dsn: str, *, name: str = "wakeful") -> AsyncQuickConnection:
    """Open one async connection in autocommit mode, or raise DatabaseUnavailable with a sentence."""
    options = connection_options(dsn, name=name)
    try:
        conn = await AsyncQuickConnection.connect(**options)
        try:
            await aconfigure(conn)
        # Cancelled, or lost at once: nobody else would close it.
        except BaseException:
            await conn.close()
            raise
    except psycopg.OperationalError as error:
        raise unavailable(dsn, error) from error
    except asyncio.CancelledError as cancelled:
        # The frames below hold a connection that is half open, for as long as anyone keeps the cancelled task.
        raise cancelled.with_traceback(None) from None
    return conn


# A pooler hands out a process number of its own, the server answers with the real one. Statements prepared
# behind a pooler may meet another server connection next time, so there they are off.
_WHO = "select pg_catalog.pg_backend_pid()"


def configure(conn: psycopg.Connection[Any]) -> None:
    """Turn prepared statements off where a pooler stands between. One query, once for each connection."""
    if conn.prepare_threshold is not None:
        row = conn.execute(_WHO, prepare=False).fetchone()
        conn.prepare_threshold = _threshold(conn, row)


async def aconfigure(conn: psycopg.AsyncConnection[Any]) -> None:
    """Turn prepared statements off where a pooler stands between. One query, once for each connection."""
    if conn.prepare_threshold is not None:
        row = await (await conn.execute(_WHO, prepare=False)).fetchone()
        conn.prepare_threshold = _threshold(conn, row)


def _threshold(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], row: Any) -> int | None:
    return 5 if row is not None and row[0] == conn.info.backend_pid else None


# libpq gives no SQLSTATE for a connection that was never made, only English.
_REASONS: tuple[tuple[str, str], ...] = (
    ("password authentication failed", "refused the password. Correct the user or the password in the DSN."),
    ("no password supplied", "asks for a password. Put one into the DSN, or into ~/.pgpass."),
    ("too many clients", "has no connection left. Close some, or raise its max_connections."),
    ("connection slots are reserved", "has no connection left. Close some, or raise its max_connections."),
    ("too many connections", "has no connection left for this user or database. Raise that limit."),
    ("no pg_hba.conf entry", "does not let this user in from here. Add a line to its pg_hba.conf."),
    ("does not support ssl", "offers no SSL. Use sslmode=prefer, or turn SSL on at the server."),
    ("starting up", "is starting up. Try again in a moment."),
    ("shutting down", "is shutting down. Try again when it is back."),
    ("resolve host", "cannot be found: its host name is unknown. Correct the host in the DSN."),
    ("translate host", "cannot be found: its host name is unknown. Correct the host in the DSN."),
    ("timeout expired", "did not answer in time. Check the host, the port and the firewall."),
    ("connection refused", "does not answer. Start it, or correct the host and port in the DSN."),
    ("no such file", "does not answer. Start it, or correct the host and port in the DSN."),
)


def unavailable(dsn: str, error: psycopg.OperationalError) -> DatabaseUnavailable:
    """Why there is no connection, in one sentence that never has the password."""
    address, text = describe(dsn), str(error)
    lowered = text.lower()
    if 'database "' in lowered and "does not exist" in lowered:
        problem = "has no such database. Create it, or correct the name in the DSN."
    elif 'role "' in lowered and "does not exist" in lowered:
        problem = "has no such user. Create the role, or correct the user in the DSN."
    else:
        known = (advice for sign, advice in _REASONS if sign in lowered)
        problem = next(known, f"cannot be reached ({_cause(text)}). Check the DSN.")
    return DatabaseUnavailable(f"The PostgreSQL server at {address} {problem}", address=address)


def _cause(text: str) -> str:
    return text.split("\n", 1)[0].rpartition("failed: ")[2].removeprefix("FATAL:").strip().rstrip(".")
