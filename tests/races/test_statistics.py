"""Counts read while others settle, fold and clean up: exact at every look."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.effort import times
from tests.races.rounds import Arena, by
from tests.sessions import Session, query, value
from tests.verbs import complete_all, enqueue_many, register, stats, worker_claim


def test_no_look_ever_sees_a_job_twice_or_not_at_all(db: Session, arena: Arena) -> None:
    jobs = times(1500)
    enqueue_many(db, [{"task": f"t{n % 3}"} for n in range(jobs)])
    done = threading.Event()

    def work(conn: Session) -> None:
        worker = register(conn, tasks=["t0", "t1", "t2"])
        while True:
            taken, _ = worker_claim(conn, worker, tasks=["t0", "t1", "t2"], want=20)
            if not taken:
                break
            complete_all(conn, worker, taken)
        done.set()

    def fold(conn: Session) -> int:
        return repeated(done, lambda: value(conn, "fold_tally"))

    def look(conn: Session) -> int:
        return repeated(done, lambda: see(conn, jobs))

    _, folds, looks = arena.race(work, fold, look)
    assert folds > 5
    assert looks > 5
    assert stats(db) == {"completed": jobs}
    value(db, "fold_tally")
    assert stats(db) == {"completed": jobs}


def see(conn: Session, jobs: int) -> None:
    counted = stats(conn)
    assert sum(counted.values()) == jobs, counted


def repeated(done: threading.Event, act: Callable[[], object]) -> int:
    """How often the act was done until the others were."""
    count = 0
    while not done.is_set():
        act()
        count += 1
    return count


def test_cleaning_up_while_folding_keeps_the_counts_true(db: Session, arena: Arena) -> None:
    for _ in range(times(15)):
        worker = register(db)
        enqueue_many(db, [{"task": "t"} for _ in range(30)])
        taken, _ = worker_claim(db, worker, want=30)
        complete_all(db, worker, taken)

        def clean(conn: Session) -> int:
            removed = value(conn, "cleanup", state="completed", keep="0", most=20)
            assert isinstance(removed, int)
            return removed

        arena.race(clean, clean, by(value, "fold_tally"))
        left = query(db, "select count(*) as jobs from wakeful.finished_job")[0]["jobs"]
        assert stats(db).get("completed", 0) == left
