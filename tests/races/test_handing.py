"""Two who hand jobs to one worker at the same moment: it is handed one, and the other comes into line."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.races.rounds import Arena
from tests.sessions import Session, background, call, query, scalar
from tests.verbs import enqueue_one, register, state_of, worker_claim
from wakeful.values.identity import new_id

CHANNEL = "wakeful_a_secret"


@pytest.fixture
def taker(db: Session, arena: Arena) -> Iterator[UUID]:
    worker = register(db)
    listener = arena.contenders[-1]
    call(listener, "attend_1", worker_id=worker, channel=CHANNEL)
    worker_claim(db, worker, sleeps="all", takes=CHANNEL)
    yield worker
    listener.execute("select pg_advisory_unlock_all()")
    listener.execute("unlisten *")


def hand_over(db: Session) -> UUID:
    id = new_id()
    enqueue_one(db, id=id)
    return id


def test_who_comes_second_while_the_first_has_not_committed(db: Session, arena: Arena, taker: UUID) -> None:
    first = arena.contenders[0]
    with first.transaction():
        handed = hand_over(first)
        late = hand_over(db)
    assert (state_of(db, handed), state_of(db, late)) == ("running", "ready")


def test_a_transaction_that_rolls_back_has_handed_over_nothing(db: Session, arena: Arena, taker: UUID) -> None:
    first = arena.contenders[0]
    with first.transaction(force_rollback=True):
        gone = hand_over(first)
    assert state_of(db, gone) is None
    assert state_of(db, hand_over(db)) == "running"


def test_many_at_once_hand_over_one(db: Session, arena: Arena, taker: UUID) -> None:
    producers = arena.contenders[:-1]
    for _ in range(20):
        with background() as start:
            ids = [made.result() for made in [start(hand_over, producer) for producer in producers]]
        running = query(db, "select from wakeful.job where state = 2 and id = any (%s)", ids)
        assert len(running) <= 1, "it has not confirmed the first"
        db.execute("delete from wakeful.job")


def test_a_confirmation_and_a_rescue_do_not_both_have_the_job(db: Session, arena: Arena, taker: UUID) -> None:
    rescuer = arena.contenders[0]
    for _ in range(10):
        worker_claim(db, taker, sleeps="all", takes=CHANNEL)
        id = hand_over(db)
        assert state_of(db, id) == "running"
        # Five seconds have passed.
        db.execute(
            "update wakeful.job set started_at = started_at - interval '5 seconds',"
            " lease_expires_at = lease_expires_at - interval '5 seconds'"
        )
        with background() as start:
            accepting = start(call, db, "accept_1", worker_id=taker, ids=[id], epochs=[1], enough=False)
            rescuing = start(call, rescuer, "rescue", most=10)
            refused, _ = accepting.result(), rescuing.result()
        held = scalar(
            db, "select worker_id is not null and lease_expires_at is null from wakeful.job where id = %s", id
        )
        assert held is not (refused != []), "either it is the worker's, or the worker is told that it is not"
        db.execute("delete from wakeful.job")
