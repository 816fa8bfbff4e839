"""Workers that are killed, stopped, or brought down by a job: nothing is lost, and nothing is settled twice."""

from __future__ import annotations

import random
import signal
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

from tests.chaos.verdict import all_over, effects_happened_once, row_of
from tests.sessions import Session, query, scalar, value
from tests.worker.processes import Fleet, Journal, until


def test_the_job_of_a_killed_worker_starts_elsewhere_when_the_lease_lapses(
    fleet: Fleet, journal: Journal, db: Session, tmp_path: Path
) -> None:
    victim = fleet.start(lease=2, concurrency=1).started()
    id = value(db, "enqueue", task="waits", payload={"path": str(tmp_path / "go")})
    until(lambda: journal.lines("start"))
    fleet.start(lease=2).started()
    victim.kill()
    lapses = scalar(db, "select lease_expires_at from wakeful.jobs where id = %s", id)
    until(lambda: len(journal.lines("start")) == 2)
    row = row_of(db, id)
    assert timedelta(0) <= row["started_at"] - lapses < timedelta(seconds=5)
    (tmp_path / "go").touch()
    assert all_over(db, [id]) == {"completed": 1}
    assert row_of(db, id)["result"] == 2


def has_started(journal: Journal, number: int) -> bool:
    return len(journal.lines("start")) >= number


def test_workers_killed_at_random_moments(fleet: Fleet, journal: Journal, db: Session) -> None:
    chance = random.Random(3)
    workers = [fleet.start(lease=2, concurrency=5).started() for _ in range(2)]
    ids: list[UUID] = []
    for _ in range(6):
        enough = len(journal.lines("start")) + chance.randrange(1, 20)
        ids += [value(db, "enqueue", task="effect", payload={}) for _ in range(25)]
        ids += [value(db, "enqueue", task="lasts", payload={"seconds": 0.05}) for _ in range(10)]
        until(partial(has_started, journal, enough))
        victim = workers.pop(0)
        victim.kill()
        workers.append(fleet.start(lease=1, concurrency=5).started())
    ended = all_over(db, ids, 90)
    # A job that happened to be alone in its worker three times is taken for the culprit: that is final too.
    assert ended.keys() <= {"completed", "dead"}
    crashed = query(db, "select last_error_code from wakeful.jobs where state = 'dead'")
    assert all(row["last_error_code"] == "worker_crashed" for row in crashed)
    effects_happened_once(db)


def test_a_stopped_worker_that_goes_on_is_refused_and_its_handler_is_told(
    fleet: Fleet, journal: Journal, db: Session, tmp_path: Path
) -> None:
    lease_seconds = 1.0
    stale = fleet.start(lease=lease_seconds, concurrency=2).started()
    told = value(db, "enqueue", task="waits", payload={"path": str(tmp_path / "go")})
    late = value(db, "enqueue", task="lasts", payload={"seconds": 0.3})
    until(lambda: len(journal.lines("start")) == 2)
    stale.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    fleet.start(lease=lease_seconds, concurrency=4).started()
    until(lambda: len(journal.lines("start")) == 4)
    until(lambda: time.monotonic() - stopped > 3 * lease_seconds)
    stale.signal(signal.SIGCONT)
    until(lambda: journal.lines("told", told))
    [line] = journal.lines("told", told)
    assert (line["epoch"], line["pid"], line["cancelled"]) == (1, stale.process.pid, True)
    until(lambda: "lease_lost" in stale.log)
    (tmp_path / "go").touch()
    assert all_over(db, [told, late]) == {"completed": 2}
    assert [row_of(db, id)["epoch"] for id in (told, late)] == [2, 2]
    # It has come back under a new id, and works.
    until(lambda: scalar(db, "select count(*) from wakeful.workers where alive") == 2)


def test_a_handler_that_holds_the_gil_for_three_leases_is_fenced_off(
    fleet: Fleet, journal: Journal, db: Session
) -> None:
    workers = [fleet.start(lease=1, concurrency=1).started() for _ in range(2)]
    id = value(db, "enqueue", task="holds_the_gil", payload={"seconds": 3})
    until(lambda: len(journal.lines("end")) == 2)
    assert all_over(db, [id]) == {"completed": 1}
    assert row_of(db, id)["result"] == 2
    [stale] = [worker for worker in workers if worker.process.pid == journal.lines("start")[0]["pid"]]
    until(lambda: "lease_lost" in stale.log)
    # It goes on, under a new id.
    until(lambda: scalar(db, "select count(*) from wakeful.workers where alive") == 2)
    assert row_of(db, id)["result"] == 2


def test_a_handler_that_blocks_the_loop_for_three_leases_is_not(fleet: Fleet, journal: Journal, db: Session) -> None:
    for _ in range(2):
        fleet.start(lease=2, concurrency=1).started()
    id = value(db, "enqueue", task="blocks", payload={"seconds": 6})
    assert all_over(db, [id]) == {"completed": 1}
    assert (row_of(db, id)["result"], journal.starts()) == (1, {str(id): 1})


def at_work(journal: Journal, pid: int, at: float) -> set[str]:
    """The jobs that a process had begun and not ended at a moment."""
    lines = [line for line in journal.lines() if line["pid"] == pid and line["at"] <= at]
    ended = {line["job"] for line in lines if line["event"] == "end"}
    return {line["job"] for line in lines if line["event"] == "start"} - ended


def test_a_job_that_brings_its_worker_down_ends_as_a_dead_letter_and_costs_the_others_nothing(
    fleet: Fleet, journal: Journal, db: Session
) -> None:
    innocents = [value(db, "enqueue", task="lasts", payload={"seconds": 0.5}) for _ in range(3)]
    culprit = value(db, "enqueue", task="aborts", payload={})
    deaths = 0
    worker = fleet.start(lease=1, concurrency=4)
    deadline = time.monotonic() + 90
    while scalar(db, "select count(*) from wakeful.job"):
        assert time.monotonic() < deadline
        if worker.process.poll() is not None:
            deaths += 1
            worker = fleet.start(lease=1, concurrency=4)
        time.sleep(0.02)
    assert all_over(db, [*innocents, culprit]) == {"completed": 3, "dead": 1}
    dead = row_of(db, culprit)
    assert (dead["state"], dead["last_error_code"]) == ("dead", "worker_crashed")
    assert "three times" in dead["last_error_message"]
    # Twice in company, which nobody is charged for, and three times alone.
    assert (deaths, dead["attempt"]) == (5, 3)
    assert [row_of(db, id)["attempt"] for id in innocents] == [1, 1, 1]
    for start in journal.lines("start", culprit)[-3:]:
        assert not at_work(journal, start["pid"], start["at"]) - {str(culprit)}
    assert worker.process.poll() is None, "with the culprit gone, the worker lives"
