"""Databases for tests: cloned from one migrated template, in milliseconds, and dropped afterwards."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import psycopg
from psycopg import sql

from wakeful.database.address import with_database
from wakeful.database.connect import aconnect, connect
from wakeful.database.migrations import read_migrations, script, up
from wakeful.edges.testing.ahead import Ahead
from wakeful.edges.testing.memory import reserve

_LOCK = int.from_bytes(b"wakeful?", "big") & 0x7FFF_FFFF_FFFF_FFFF
_CLONE = re.compile(r"^wakeful_test_(?P<pid>\d+)_\d+$")
_TEMPLATE = re.compile(r"^wakeful_template_(?P<day>[^_]+)")


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one test's own."""

    dsn: str
    name: str

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A new sync connection in autocommit mode; use it in a `with`."""
        return connect(self.dsn, name="wakeful test")

    async def aconnect(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        """A new async connection in autocommit mode; use it in an `async with await`."""
        return await aconnect(self.dsn, name="wakeful test")


class Databases:
    """The tests' databases on one server. Several processes may do this on the same server at once."""

    def __init__(self, dsn: str, *, local: bool) -> None:
        self.dsn = dsn
        self._local = local
        self._numbers = count(1)
        self._template: str | None = None
        self.tablespace: str | None = None
        self._admin = connect(with_database(dsn, "postgres"), name="wakeful tests")
        self._ahead: Ahead | None = None
        if local:
            self._sweep()

    def close(self) -> None:
        """Close the connections that create and drop; databases still there are swept by the next run."""
        if self._ahead is not None and (left := self._ahead.close()):
            self._drop(left)
        self._admin.close()

    @contextmanager
    def migrated(self) -> Iterator[Database]:
        """A clone of the template, with the schema in it, dropped at the end."""
        name = self._clone(self._ensure_template())
        try:
            yield Database(with_database(self.dsn, name), name)
        finally:
            self._drop(name)

    @contextmanager
    def blank(self) -> Iterator[Database]:
        """A database with nothing in it, dropped at the end."""
        name = self._new_name()
        self._admin.execute(self._create(name, "template0"))
        try:
            yield Database(with_database(self.dsn, name), name)
        finally:
            self._drop(name)

    def _clone(self, template: str) -> str:
        """The clone that was made ahead, or a new one; and the next is begun."""
        if self._ahead is None:
            # The first may be the only one: what is not asked for twice is not made ahead.
            self._ahead = Ahead(connect(with_database(self.dsn, "postgres"), name="wakeful tests"))
            name = self._new_name()
            self._admin.execute(self._create(name, template))
            return name
        name = self._ahead.take() or ""
        if not name:
            name = self._new_name()
            self._admin.execute(self._create(name, template))
        following = self._new_name()
        self._ahead.begin(following, self._create(following, template))
        return name

    def _new_name(self) -> str:
        return f"wakeful_test_{os.getpid()}_{next(self._numbers)}"

    def _ensure_template(self) -> str:
        if self._template is None:
            name = _template_name()
            # Test processes that start together build it once: the others wait here.
            self._admin.execute("select pg_advisory_lock(%s)", [_LOCK])
            try:
                self.tablespace = reserve(self._admin) if self._local else None
                if not self._exists(name):
                    self._build(name)
            finally:
                self._admin.execute("select pg_advisory_unlock(%s)", [_LOCK])
            self._template = name
        return self._template

    def _build(self, name: str) -> None:
        building = f"{name}_building"
        self._drop(building)
        self._admin.execute(self._create(building, "template0"))
        with connect(with_database(self.dsn, building), name="wakeful tests") as conn:
            up(conn)
        # Only a finished template has the name that others look for.
        rename = sql.SQL("alter database {} rename to {}")
        self._admin.execute(rename.format(sql.Identifier(building), sql.Identifier(name)))

    def _create(self, name: str, template: str) -> sql.Composed:
        statement = sql.SQL("create database {} template {} strategy wal_log tablespace {}")
        where = sql.SQL("default") if self.tablespace is None else sql.Identifier(self.tablespace)
        return statement.format(sql.Identifier(name), sql.Identifier(template), where)

    def _exists(self, name: str) -> bool:
        found = self._admin.execute("select 1 from pg_database where datname = %s", [name])
        return found.fetchone() is not None

    def _drop(self, name: str) -> None:
        self._admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def _sweep(self) -> None:
        """Drop what killed test processes left behind, and the templates of earlier days.

        Yesterday's stays: a run that began before midnight still clones it.
        """
        yesterday = _day(datetime.now(UTC) - timedelta(days=1))
        for (name,) in self._admin.execute("select datname from pg_database").fetchall():
            clone, template = _CLONE.match(name), _TEMPLATE.match(name)
            stale = template and template["day"] < yesterday
            if stale or (clone and not _alive(int(clone["pid"]))):
                self._drop(name)


def _template_name() -> str:
    # The day is in it because a schema made today has history's partitions for the coming week only.
    text = script(read_migrations(), "up")
    return f"wakeful_template_{_day(datetime.now(UTC))}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _day(moment: datetime) -> str:
    return f"{moment:%Y%m%d}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
