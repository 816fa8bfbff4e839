"""Seed 000's rollout: notify off, then on with a short poll, then a long poll, and all the way back, under load."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from tests.acceptance.processes import Running, running, shop_in, wait_until
from tests.sessions import Session, query, scalar, session
from wakeful import Wakeful
from wakeful.testing import Database

LISTENERS = """
select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen %%'
"""


@dataclass(frozen=True)
class Phase:
    """`within`: how many seconds after its enqueue a job must have started."""

    name: str
    notify: bool
    poll: str
    within: float

    def settings(self) -> str:
        switch = str(self.notify).lower()
        return f'[database]\nnotify = {switch}\n[worker]\nprocesses = 2\npoll_interval = "{self.poll}"\n'


OFF = Phase("notify off", False, "300ms", 4.0)
SHORT = Phase("notify on, a short poll", True, "300ms", 4.0)
# Far below the poll: only a poke can have started it.
LONG = Phase("notify on, a long poll", True, "30s", 10.0)


@dataclass
class Load:
    """Enqueues about forty jobs a second, with the settings that a producer has at the moment."""

    app: Wakeful
    ids: list[UUID] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.wait(0.025):
            made = self.app.enqueue("quick", {"number": len(self.ids)})
            assert made is not None
            self.ids.append(made)


@contextmanager
def under_load(dsn: str) -> Iterator[Load]:
    load = Load(Wakeful(dsn, notify=False))
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load
    finally:
        load.over.set()
        thread.join()
        load.app.close()


def enter(phase: Phase, folder: Path, worker: Running, load: Load, dsn: str, reloads: int) -> None:
    """One step of the rollout: the file is edited, the workers get a SIGHUP, the producer is started anew."""
    (folder / "wakeful.toml").write_text(phase.settings())
    worker.send(signal.SIGHUP)
    worker.wait_for("reload_done", reloads)
    before, load.app = load.app, Wakeful(dsn, notify=phase.notify)
    before.close()


def check(phase: Phase, db: Session, load: Load) -> None:
    """New jobs start as soon as the phase promises, and workers listen or do not."""
    wait_until(lambda: scalar(db, LISTENERS) == (2 if phase.notify else 0), f"listeners while {phase.name}")
    first = len(load.ids)
    wait_until(lambda: len(load.ids) >= first + 30)
    ids = load.ids[first : first + 30]
    wait_until(lambda: finished(db, ids) == 30, f"jobs while {phase.name}")
    late = "select max(extract(epoch from started_at - created_at)) from wakeful.jobs where id = any (%s)"
    assert scalar(db, late, ids) < phase.within, phase.name


def finished(db: Session, ids: list[UUID]) -> int:
    counted: int = scalar(db, "select count(*) from wakeful.jobs where id = any (%s) and state = 'completed'", ids)
    return counted


@pytest.mark.slow
def test_all_phases_and_back_lose_and_double_nothing(database: Database, tmp_path: Path) -> None:
    folder = shop_in(tmp_path)
    (folder / "wakeful.toml").write_text(OFF.settings())
    arguments = ("worker", "shop:app")
    with (
        session(database.dsn) as db,
        running(*arguments, folder=folder, dsn=database.dsn) as worker,
        under_load(database.dsn) as load,
    ):
        worker.wait_for("worker_started", 2)
        check(OFF, db, load)
        for reloads, phase in enumerate((SHORT, LONG, SHORT, OFF), start=1):
            enter(phase, folder, worker, load, database.dsn, reloads)
            check(phase, db, load)
        load.over.set()
        wait_until(lambda: finished(db, load.ids) == len(load.ids), "the last jobs")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
        assert not worker.events("process_crashed")
        # Given back at a reload, a job is not charged; it never completes twice, since it is over then.
        assert query(db, "select state, attempt, count(*) as jobs from wakeful.jobs group by 1, 2") == [
            {"state": "completed", "attempt": 1, "jobs": len(load.ids)}
        ]


def seconds_until_done(app: Wakeful, db: Session) -> float:
    """Enqueue one job; how long it takes until it is completed."""
    began = time.monotonic()
    made = app.enqueue("quick", {"number": 1})
    assert made is not None
    wait_until(lambda: finished(db, [made]))
    return time.monotonic() - began


@pytest.mark.slow
def test_an_idle_worker_with_a_long_poll_is_woken_and_one_that_only_polls_is_not(
    database: Database, tmp_path: Path
) -> None:
    """What the phases differ in, seen from a single job: no load hides it here."""
    folder, asleep = shop_in(tmp_path), "select count(*) from wakeful.workers where asleep"
    long_poll, only_poll = ("--poll-interval", "30"), ("--poll-interval", "2", "--no-notify")
    with Wakeful(database.dsn) as app, session(database.dsn) as db:
        with running("worker", "shop:app", *long_poll, folder=folder, dsn=database.dsn) as worker:
            wait_until(lambda: scalar(db, asleep))
            assert seconds_until_done(app, db) < 10
            worker.send(signal.SIGTERM)
            assert worker.ended() == 0
        with running("worker", "shop:app", *only_poll, folder=folder, dsn=database.dsn) as worker:
            worker.wait_for("worker_started")
            assert 0.5 < max(seconds_until_done(app, db) for _ in range(3)) < 10
            assert scalar(db, asleep) == 0
