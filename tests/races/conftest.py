"""A session that watches; the contenders have their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.races.rounds import Arena
from tests.sessions import Session, session
from wakeful.testing import Database


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@pytest.fixture
def arena(database: Database) -> Iterator[Arena]:
    with Arena.of(database.dsn) as opened:
        yield opened
