"""Travel in time: the queue's clock runs ahead in one database, for every session that is open there."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg

# The schema reads time through this one function. Its own rights: whoever calls the queue need not read our table.
_TRAVELLING = """
create or replace function wakeful.now() returns timestamptz
    language sql volatile parallel safe security definer
    set search_path = pg_catalog, pg_temp
    return pg_catalog.clock_timestamp() + (select c.ahead from wakeful_testing.clock c)
"""

_AT_HOME = """
create or replace function wakeful.now() returns timestamptz
    language sql volatile parallel safe
    return pg_catalog.clock_timestamp()
"""


def pack(conn: psycopg.Connection[Any]) -> None:
    """Be ready to travel: from here on, journeys are seen by every session, whatever it is in the middle of."""
    with conn.transaction():
        if not _is_packed(conn):
            conn.execute("create schema wakeful_testing")
            conn.execute("create table wakeful_testing.clock (ahead interval not null)")
            conn.execute("insert into wakeful_testing.clock values ('0')")
            conn.execute(_TRAVELLING)


def travel(conn: psycopg.Connection[Any], by: timedelta | str) -> None:
    """Let the queue's clock run ahead by as much more."""
    with conn.transaction():
        pack(conn)
        conn.execute("update wakeful_testing.clock set ahead = ahead + %s::interval", [by])


def travel_to(conn: psycopg.Connection[Any], moment: datetime) -> None:
    """As `travel`, to a moment."""
    found = conn.execute("select %s::timestamptz - wakeful.now() as distance", [moment]).fetchone()
    assert found is not None
    [distance] = found.values() if isinstance(found, dict) else found
    travel(conn, distance)


def come_home(conn: psycopg.Connection[Any]) -> None:
    """Back to the time that it is."""
    with conn.transaction():
        if _is_packed(conn):
            conn.execute(_AT_HOME)
            conn.execute("drop schema wakeful_testing cascade")


def _is_packed(conn: psycopg.Connection[Any]) -> bool:
    return conn.execute("select from pg_namespace where nspname = 'wakeful_testing'").fetchone() is not None
