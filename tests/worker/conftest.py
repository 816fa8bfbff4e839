"""An app and a session on a database that is emptied before each test: a clone takes longer than most of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.sessions import Session, empty, session
from tests.worker.processes import Fleet, Journal, fleet_on
from wakeful.app import Wakeful
from wakeful.testing import Database, Databases


@pytest.fixture(scope="session")
def kept_database(databases: Databases) -> Iterator[Database]:
    with databases.migrated() as database:
        yield database


@pytest.fixture
def database(kept_database: Database) -> Database:
    """Without anyone else in it, and without anything."""
    with session(kept_database.dsn) as conn:
        conn.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        empty(conn)
    return kept_database


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def fleet(database: Database, journal: Journal) -> Iterator[Fleet]:
    with fleet_on(database.dsn, journal) as made:
        yield made


@pytest.fixture
async def app(database: Database) -> AsyncIterator[Wakeful]:
    async with Wakeful(database.dsn) as made:
        yield made
