"""`claim_any_1` and `wake_1`: callers outside the fleet, who may sleep until poked."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.sessions import INVALID, Ear, Session, call, query, refusal, session, shift_clock, value
from tests.verbs import enqueue, enqueue_many, register, state_of, worker_claim
from wakeful.testing import Database


def claim_any(db: Session, caller: UUID, **options: object) -> tuple[list[UUID], dict[str, Any]]:
    asked = {"queues": None, "tasks": None, "want": 10, "lease": "5 minutes", **options}
    rows = call(db, "claim_any_1", worker_id=caller, **asked)
    return [row["id"] for row in rows if row["id"]], rows[-1]


def sleepers(db: Session) -> list[UUID]:
    return [row["worker_id"] for row in query(db, "select worker_id from wakeful.sleeper")]


def test_everything_or_what_is_named_is_taken(db: Session) -> None:
    ids = {(q, t): enqueue(db, t, queue=q) for q in ("q1", "q2") for t in ("t1", "t2")}
    assert claim_any(db, uuid4(), queues=["q1"], tasks=["t2"])[0] == [ids["q1", "t2"]]
    assert set(claim_any(db, uuid4(), tasks=["t1"])[0]) == {ids["q1", "t1"], ids["q2", "t1"]}
    assert claim_any(db, uuid4())[0] == [ids["q2", "t2"]]
    assert claim_any(db, uuid4())[0] == []


@pytest.mark.parametrize("lease", [None, "0", "-1 second"])
def test_a_lease_must_be_positive(db: Session, lease: str | None) -> None:
    with refusal(INVALID):
        claim_any(db, uuid4(), lease=lease)


def test_who_found_nothing_sleeps_and_who_found_something_does_not(db: Session) -> None:
    caller = uuid4()
    claim_any(db, caller, sleeps_for="1 minute")
    assert sleepers(db) == [caller]
    enqueue(db)
    claim_any(db, caller, sleeps_for="1 minute")
    assert sleepers(db) == []
    enqueue(db)
    claim_any(db, caller, sleeps_for="1 minute", others=True)
    assert sleepers(db) == [caller], "others of its process wait on"
    call(db, "wake_1", worker_id=caller)
    assert sleepers(db) == []


def test_a_declared_sleep_lapses_by_itself(db: Session, kept_database: Database) -> None:
    killed, alive = uuid4(), uuid4()
    claim_any(db, killed, sleeps_for="1 minute")
    with session(kept_database.dsn) as listener:
        ear = Ear(listener, killed)
        enqueue(db, delay="1 day")
        assert len(ear.heard(db)) == 1
        shift_clock(db, "2 minutes")
        enqueue(db, delay="1 day")
        assert ear.heard(db) == []
    claim_any(db, alive, sleeps_for="1 minute")
    assert sleepers(db) == [alive]


def test_what_is_due_next_is_told_also_when_nothing_waits(db: Session) -> None:
    assert claim_any(db, uuid4())[1]["due_in"] is None
    enqueue(db)
    claim_any(db, uuid4(), lease="30 seconds")
    due = claim_any(db, uuid4())[1]["due_in"]
    assert 20 < due <= 30
    enqueue(db, delay="10 seconds")
    due = claim_any(db, uuid4())[1]["due_in"]
    assert 5 < due <= 10


def test_one_that_must_run_alone_is_taken_alone_and_last(db: Session) -> None:
    crashing = enqueue(db)
    worker = register(db, lease="10 seconds")
    worker_claim(db, worker)
    shift_clock(db, "11 seconds")
    assert value(db, "rescue") == 1
    healthy = [row["id"] for row in enqueue_many(db, [{"task": "t"}, {"task": "t"}])]
    assert set(claim_any(db, uuid4())[0]) == set(healthy)
    assert claim_any(db, uuid4())[0] == [crashing]
    assert state_of(db, crashing) == "running"
