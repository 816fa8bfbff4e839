"""A worker falls asleep just as a job is committed: whoever looked too early to see it asleep is waited for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.races.rounds import Arena
from tests.sessions import Session, scalar, until
from tests.verbs import claim_one, complete, enqueue, fail, register, worker_claim


def enqueued(producer: Session) -> None:
    enqueue(producer, "t")
    # What a commit does first: the poke goes out, to those who sleep by then.
    producer.execute("set constraints all immediate")


def failed(holder: Session) -> None:
    fail(holder, claim_one(holder), retry_in="0 seconds")


def in_a_moment(due_in: float) -> bool:
    """Told from the beginning of the call, which may have taken its time."""
    return 0.05 <= due_in < 60


@pytest.mark.parametrize("act", [enqueued, failed])
def test_who_falls_asleep_looks_again_until_nobody_is_between_poke_and_commit(
    db: Session, arena: Arena, act: Callable[[Session], None]
) -> None:
    producer, sleeper = arena.contenders[0], register(db)
    if act is failed:
        enqueue(db, "t")
    with producer.transaction():
        act(producer)
        for _ in range(3):
            jobs, report = worker_claim(db, sleeper, sleeps="all")
            assert jobs == []
            assert in_a_moment(report["due_in"])
    jobs, _ = worker_claim(db, sleeper, sleeps="all")
    assert len(jobs) == 1


def test_who_sleeps_and_is_sure_of_it_sleeps_on(db: Session) -> None:
    sleeper = register(db)
    assert in_a_moment(worker_claim(db, sleeper, sleeps="all")[1]["due_in"])
    assert worker_claim(db, sleeper, sleeps="all")[1]["due_in"] > 3000


def test_a_wider_declaration_is_looked_at_again(db: Session) -> None:
    sleeper = register(db)
    worker_claim(db, sleeper, queues=["a"], sleeps="these")
    assert worker_claim(db, sleeper, queues=["a"], sleeps="these")[1]["due_in"] > 3000
    assert in_a_moment(worker_claim(db, sleeper, queues=["a", "b"], sleeps="these")[1]["due_in"])


def test_a_brief_claim_that_took_nothing_comes_back_for_what_others_hold(db: Session, arena: Arena) -> None:
    worker, other = register(db), arena.contenders[0]
    enqueue(db, "t")
    with other.transaction():
        other.execute("select from wakeful.job for update")
        assert 1 <= worker_claim(db, worker, brief=True)[1]["due_in"] < 60
    assert worker_claim(db, worker, brief=True)[0]
    # Nothing to come back for but a lease, which is to be minded.
    assert worker_claim(db, worker, brief=True)[1]["due_in"] > 60


def test_who_is_slower_than_another_poked_one_sees_its_commit_and_sleeps_on(db: Session, arena: Arena) -> None:
    quicker, slower, onlooker = arena.contenders
    worker = register(db)
    waits = "select exists (select from pg_stat_activity where pid = %s and wait_event = 'PgSleep')"

    def looks_again_in() -> float:
        enqueue(db, "t")
        with quicker.transaction():
            held = claim_one(quicker)
            asked = arena.pool.submit(worker_claim, slower, worker, brief=True)
            until(lambda: asked.done() or scalar(onlooker, waits, slower.info.backend_pid))
        complete(quicker, held)
        jobs, report = asked.result()
        assert jobs == []
        return float(report["due_in"])

    # It waits for ten milliseconds at most, and a busy machine may take longer to commit.
    assert any(looks_again_in() > 60 for _ in range(50))
