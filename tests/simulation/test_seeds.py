"""The worker's own logic in virtual time, over many seeds: each failure names the seed that replays it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.contract.test_model import stop_clock
from tests.effort import times
from tests.sessions import Session, session
from tests.simulation.play import play
from tests.simulation.seeds import failures
from wakeful.testing import Databases
from wakeful.worker.shift import Shift


@pytest.fixture(scope="module")
def db(databases: Databases) -> Iterator[Session]:
    """The session that all statements run on."""
    with databases.migrated() as database, session(database.dsn) as conn:
        stop_clock(conn)
        logging.disable(logging.CRITICAL)
        yield conn
        logging.disable(logging.NOTSET)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_workers_wake_work_and_stop_as_they_should(db: Session, part: int) -> None:
    seeds = range(part, times(48), 4)
    assert not failures(db, seeds)


# Seeds that failed once, and what of.
KEPT = {171: "a canary that was under way when the listener was lost kept the loop from ever sleeping"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_failed_once_holds(db: Session, seed: int) -> None:
    assert not failures(db, [seed]), KEPT[seed]


def test_the_same_seed_gives_the_same_life(db: Session) -> None:
    lives = []
    for _ in range(2):
        play(db, 5)
        lives.append(db.execute("select id, epoch, started_at, finished_at from wakeful.jobs order by id").fetchall())
    assert lives[0] == lives[1]


def test_a_worker_that_relies_on_pokes_alone_is_caught(db: Session) -> None:
    """Planted: no pulse, no look at the table that nobody asked for; and the pokes are lost."""

    def plant(shift: Shift) -> None:
        shift._loop._interval = lambda: 1e9  # type: ignore[method-assign]
        shift._loop.pulse_soon = lambda: None  # type: ignore[method-assign]
        shift._loop.alarm.table_says = lambda seconds: None  # type: ignore[method-assign]

    with pytest.raises(AssertionError, match="wedged"):
        play(db, 5, sabotage=plant)
