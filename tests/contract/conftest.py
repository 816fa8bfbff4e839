"""Sessions for the contract tests.

`db` and `other` are on one database that is emptied before each test: there are hundreds of tests, and a clone
takes longer than most of them. What changes the schema itself takes `own`, which is on a clone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sessions import Session, empty, session
from wakeful.testing import Database, Databases


@pytest.fixture(scope="session")
def kept_database(databases: Databases) -> Iterator[Database]:
    with databases.migrated() as database:
        yield database


@pytest.fixture
def db(kept_database: Database) -> Iterator[Session]:
    with session(kept_database.dsn) as conn:
        empty(conn)
        yield conn


@pytest.fixture
def other(kept_database: Database) -> Iterator[Session]:
    with session(kept_database.dsn) as conn:
        yield conn


@pytest.fixture
def own(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn
