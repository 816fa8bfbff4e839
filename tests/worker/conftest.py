"""An app and a session on a database of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.sessions import Session, session
from wakeful.app import Wakeful
from wakeful.edges.testing import Database


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@pytest.fixture
async def app(database: Database) -> AsyncIterator[Wakeful]:
    async with Wakeful(database.dsn) as made:
        yield made
