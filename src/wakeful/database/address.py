"""Which server: from what was given, the environment, or the embedded one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from wakeful.values.address import address
from wakeful.values.errors import ConfigError, InvalidOption

# SQLAlchemy's and Django's spellings of a PostgreSQL URL.
_URL = re.compile(r"^(?P<scheme>[a-z][a-z0-9_]*)(?P<driver>\+[a-z0-9_]+)?://", re.IGNORECASE)
_SCHEMES = ("postgres", "postgresql", "psql", "pgsql", "postgis")


def resolve_dsn(explicit: str | None = None, *, directory: Path | None = None) -> str:
    """The address to connect to: the given one, WAKEFUL_DSN, DATABASE_URL, else the embedded server's.

    Starts the embedded server (in `directory`) when nothing else is set, so it may take a second.
    """
    for source, value in (
        ("The DSN", explicit),
        ("WAKEFUL_DSN", os.environ.get("WAKEFUL_DSN")),
        # Set by others, for others: an empty one says nothing.
        ("DATABASE_URL", os.environ.get("DATABASE_URL", "").strip() or None),
    ):
        if value is not None:
            return normalise_dsn(value, source=source)
    from wakeful.database.embedded import ensure

    return ensure(directory).dsn


def normalise_dsn(dsn: str, *, source: str = "The DSN") -> str:
    """The same address in a form that libpq takes: no driver in the scheme, `ssl=` as `sslmode=`."""
    try:
        dsn = address(dsn, source)
    except InvalidOption as error:
        raise ConfigError(source, error.problem) from None
    if found := _URL.match(dsn):
        if found["scheme"].lower() not in _SCHEMES:
            raise ConfigError(source, f"names {found['scheme']}, not PostgreSQL. Set WAKEFUL_DSN=postgresql://…")
        dsn = "postgresql://" + dsn[found.end() :]
        if found["driver"]:
            dsn = re.sub(r"([?&])ssl=", r"\1sslmode=", dsn)
    _check(dsn, source)
    return dsn


def _check(dsn: str, source: str) -> None:
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        # libpq quotes the piece that it cannot read, and that piece can be the password: pass on names only.
        unknown = re.search(r'(?:URI query parameter|connection option)[^"]*("\w+")', str(error))
        problem = f"has an option that libpq does not know, {unknown[1]}." if unknown else "cannot be read."
        raise ConfigError(
            source, f"{problem} Write postgresql://user:password@host:port/name, special characters as %XX."
        ) from None


def describe(dsn: str) -> str:
    """The address for people: host, port and database, never the password."""
    parts = conninfo_to_dict(dsn)
    host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST") or "the local socket"
    port = parts.get("port") or os.environ.get("PGPORT") or "5432"
    return f"{host}:{port}/{parts.get('dbname') or os.environ.get('PGDATABASE') or ''}"


def with_database(dsn: str, name: str) -> str:
    """The same server and user, another database."""
    return make_conninfo(dsn, dbname=name)
