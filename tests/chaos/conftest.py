"""Worker processes on a database of the test's own, and a journal of what their handlers did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sessions import Session, session
from tests.worker.processes import Fleet, Journal, fleet_on
from wakeful.testing import Database


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        conn.execute("create table public.effect (job_id uuid not null)")
        yield conn


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def fleet(database: Database, journal: Journal) -> Iterator[Fleet]:
    with fleet_on(database.dsn, journal) as made:
        yield made
