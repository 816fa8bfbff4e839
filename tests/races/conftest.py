"""Two sessions on a database of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sessions import Session, session
from wakeful.edges.testing import Database


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@pytest.fixture
def other(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn
