"""Migrating while producers and a worker run loses nothing and doubles nothing."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from wakeful.database.migrations import SHIPPED, down, newest_version, read_migrations, up
from wakeful.testing import Database

PRODUCERS = 2

ALTER = """
alter table wakeful.job add column colour text;
create index job_colour on wakeful.job (colour);
create function wakeful.painted() returns bigint language sql return (select count(colour) from wakeful.job);
"""
REVERT = """
drop function wakeful.painted();
alter table wakeful.job drop column colour;
"""


@pytest.fixture
def with_one_more(tmp_path: Path) -> Path:
    """The shipped migrations, and one that changes the busiest table."""
    directory = Path(shutil.copytree(SHIPPED, tmp_path / "migrations"))
    label = f"{newest_version() + 1:04d}_colour"
    (directory / f"{label}.up.sql").write_text(ALTER, encoding="utf-8")
    (directory / f"{label}.down.sql").write_text(REVERT, encoding="utf-8")
    return directory


def test_one_more_migration_and_back_under_load(database: Database, with_one_more: Path) -> None:
    """Callers notice nothing but a short wait."""
    before = newest_version()
    with load(database, patient=False) as turn, database.connect() as conn:
        for _ in range(5):
            turn()
            assert [m.version for m in up(conn, directory=with_one_more)] == [before + 1]
            turn()
            down(conn, before, directory=with_one_more)
    assert len(read_migrations(with_one_more)) == before + 1


def test_all_the_way_down_and_up_under_load(database: Database) -> None:
    """Between the two there is no schema: callers see errors then, and try again."""
    with load(database, patient=True) as turn, database.connect() as conn:
        for _ in range(3):
            turn()
            down(conn, 0)
            up(conn)
        turn()


class Turnstile:
    """Counts what was done, and lets others wait for more of it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def passed(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait_for_more(self, more: int) -> None:
        with self._changed:
            target = self._count + more
            assert self._changed.wait_for(lambda: self._count >= target, timeout=30), "nothing moves"


@contextmanager
def load(database: Database, *, patient: bool) -> Iterator[Callable[[], None]]:
    """Producers and a worker at work; at the end each job that was enqueued has been completed, once.

    Gives a call that waits until both have got something done. The patient try again after an error.
    """
    stop, enqueued, completed = threading.Event(), Turnstile(), Turnstile()

    def turn() -> None:
        enqueued.wait_for_more(10)
        completed.wait_for_more(5)

    with ThreadPoolExecutor(PRODUCERS + 1) as threads:
        producers = [threads.submit(produce, database, stop, enqueued, patient) for _ in range(PRODUCERS)]
        worker = threads.submit(consume, database, stop, completed, patient)
        try:
            yield turn
        finally:
            stop.set()
        made = [id for producer in producers for id in producer.result(60)]
        worker.result(60)
    with database.connect() as conn:
        ended = conn.execute("select id, state from wakeful.jobs").fetchall()
    assert Counter(ended) == Counter((id, "completed") for id in made)


def produce(database: Database, stop: threading.Event, enqueued: Turnstile, patient: bool) -> list[UUID]:
    made = []
    with database.connect() as conn:
        while not stop.is_set():
            id = uuid4()
            attempt(conn, patient, "select wakeful.enqueue('mail', id => %s)", [id])
            made.append(id)
            enqueued.passed()
    return made


def consume(database: Database, stop: threading.Event, completed: Turnstile, patient: bool) -> None:
    """Claims and completes until told to stop and nothing is left."""
    worker = uuid4()
    with database.connect() as conn:
        while True:
            ending = stop.is_set()
            claimed = attempt(conn, patient, "select id, epoch from wakeful.claim(%s, want => 5)", [worker])
            for id, epoch in claimed:
                attempt(conn, patient, "select wakeful.complete(%s, %s, %s)", [id, epoch, worker])
                completed.passed()
            if ending and not claimed and nothing_left(conn):
                return


def attempt(conn: psycopg.Connection[Any], patient: bool, query: str, values: list[object]) -> list[Any]:
    """Until it succeeds, or the fence says that the claim is gone. The same id makes one job."""
    while True:
        try:
            return conn.execute(query, values).fetchall()
        except psycopg.Error as error:
            if error.sqlstate == "WF001":
                return []
            if not patient:
                raise
            time.sleep(0.005)


def nothing_left(conn: psycopg.Connection[Any]) -> bool:
    live = conn.execute("select count(*) from wakeful.jobs where state in ('ready', 'running')").fetchone()
    return live == (0,)
