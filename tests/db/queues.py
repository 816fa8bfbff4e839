"""Apps with a queue on a test's database, and both forms of its verbs under one name."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

from tests.sessions import Session, background, scalar, session, until
from wakeful.app import Wakeful
from wakeful.database.session import Database
from wakeful.queue import ClaimedJob, Queue, room
from wakeful.statements.statement import Statement
from wakeful.testing import Database as TestDatabase

T = TypeVar("T")


class CountingDatabase(Database):
    """Counts the looks at the table that callers of `claim` take."""

    looks = 0
    renewals = 0
    _counting = threading.Lock()

    def run(self, statement: Statement[T]) -> T:
        self._count(statement)
        return super().run(statement)

    async def arun(self, statement: Statement[T]) -> T:
        self._count(statement)
        return await super().arun(statement)

    def _count(self, statement: Statement[Any]) -> None:
        with self._counting:
            self.looks += "claim_any_1" in statement.sql
            self.renewals += "extend_1" in statement.sql


class Verbs:
    """`await verbs.claim(…)` calls `claim` in a thread, or awaits `aclaim`."""

    def __init__(self, queue: Queue, form: str) -> None:
        self.queue = queue
        self.form = form

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if self.form == "async":
            awaited: Callable[..., Awaitable[Any]] = getattr(self.queue, f"a{name}")
            return awaited
        blocking = getattr(self.queue, name)
        return lambda *args, **kwargs: asyncio.to_thread(blocking, *args, **kwargs)


@pytest.fixture
def app(database: TestDatabase) -> Iterator[Wakeful]:
    with Wakeful(database.dsn) as opened:
        opened.database = CountingDatabase(database.dsn)
        yield opened


@pytest.fixture
def queue(app: Wakeful) -> Iterator[Queue]:
    yield app.queue
    app.queue.close()


@pytest.fixture(params=["sync", "async"])
async def verbs(queue: Queue, app: Wakeful, request: pytest.FixtureRequest) -> AsyncIterator[Verbs]:
    yield Verbs(queue, request.param)
    await queue.aclose()
    await app.database.aclose()


@pytest.fixture
def db(database: TestDatabase) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


LISTENERS = "select count(*) from pg_stat_activity where application_name = 'wakeful listener' and datname = %s"


def sleepers(db: Session) -> int:
    count = scalar(db, "select count(*) from wakeful.sleeper")
    assert isinstance(count, int)
    return count


def looks(app: Wakeful) -> int:
    assert isinstance(app.database, CountingDatabase)
    return app.database.looks


def fall_asleep(app: Wakeful, db: Session, callers: int = 1) -> int:
    """Return once all callers sleep and nothing more is due; the number of looks it took."""
    # One look when each came, one to declare it; and once more after a moment, for all of them.
    until(lambda: sleepers(db) == 1 and looks(app) >= 2 * callers)
    steady = looks(app)
    deadline = time.monotonic() + 3 * room.A_MOMENT
    while time.monotonic() < deadline:
        if looks(app) != steady:
            steady, deadline = looks(app), time.monotonic() + 3 * room.A_MOMENT
        time.sleep(0.01)
    return steady


Start = Callable[..., Future[list[ClaimedJob]]]


@pytest.fixture
def start(queue: Queue) -> Iterator[Start]:
    """Start claims in threads; the queue is closed before the threads are waited for, so that none hangs."""
    with background() as submit:
        try:
            yield lambda **options: submit(queue.claim, **options)
        finally:
            queue.close()
