"""Where the demo plays: a database that is made for it, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wakeful.database import embedded, migrations
from wakeful.database.address import with_database
from wakeful.database.connect import connect
from wakeful.database.create import create_database
from wakeful.edges.demo.shop import TABLES


@dataclass(frozen=True, slots=True)
class Stage:
    """A migrated database with the shop's tables, and a file for what the workers log."""

    dsn: str
    version: str
    log: Path


@contextmanager
def stage(dsn: str | None, step: Callable[[str], None]) -> Iterator[Stage]:
    """Make the database: on an embedded server of its own, or on the server of `dsn`. Blocks.

    `step` is told how far it is.
    """
    directory = Path(tempfile.mkdtemp(prefix="wakeful-demo-"))
    try:
        with _database_on(dsn) if dsn else _server_in(directory, step) as address:
            step("schema")
            with connect(address, name="wakeful demo") as conn:
                migrations.up(conn)
                conn.execute(TABLES)
                version = conn.info.parameter_status("server_version") or ""
            yield Stage(address, version.split()[0], directory / "workers.log")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _server_in(directory: Path, step: Callable[[str], None]) -> Iterator[str]:
    step("server")
    try:
        yield embedded.ensure(directory / "server", linger_seconds=1.0).dsn
    finally:
        embedded.reset(directory / "server")


@contextmanager
def _database_on(dsn: str) -> Iterator[str]:
    from psycopg import sql

    name = f"wakeful_demo_{os.getpid()}"
    with connect(dsn, name="wakeful demo") as admin:
        create_database(admin, name, "the demo")
        try:
            yield with_database(dsn, name)
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
