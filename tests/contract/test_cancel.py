"""`wakeful.cancel`: a waiting job is over at once, a running one is asked to stop."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.sessions import Ear, Session, call, query, scalar, session, shift_clock, value
from tests.verbs import (
    claim,
    complete,
    enqueue,
    fail,
    job,
    register,
    started,
    state_of,
    states,
    stats,
    worker_claim,
)
from wakeful.testing import Database


@pytest.mark.parametrize("delay", ["0", "1 hour"])
def test_a_waiting_job_is_over_at_once_and_burns_nothing(db: Session, delay: str) -> None:
    id = enqueue(db, delay=delay)
    assert value(db, "cancel", id=id, reason="changed my mind", actor="ann") == "cancelled"
    over = job(db, id)
    assert (over["state"], over["cancel_reason"]) == ("cancelled", "changed my mind")
    assert (over["attempt"], over["attempts"]) == (0, None)
    assert claim(db) == []


def test_a_running_job_is_asked_and_its_completion_wins(db: Session) -> None:
    held = started(db)
    assert value(db, "cancel", id=held.id) == "requested"
    assert job(db, held.id)["cancel_requested_at"] is not None
    complete(db, held, "done")
    assert (state_of(db, held.id), job(db, held.id)["result"]) == ("completed", "done")


@pytest.mark.parametrize("verb", ["fail", "fail for good", "snooze", "release"])
def test_a_running_job_that_was_asked_to_stop_is_cancelled_by_any_other_end(db: Session, verb: str) -> None:
    held = started(db)
    call(db, "cancel", id=held.id, reason="enough")
    if verb == "snooze":
        call(db, "snooze", **held.fence, delay="1 hour")
    elif verb == "release":
        call(db, "release", **held.fence)
    else:
        fail(db, held, no_retry=verb != "fail")
    over = job(db, held.id)
    assert (over["state"], over["cancel_reason"]) == ("cancelled", "enough")
    assert len(over["attempts"]) == 1


def test_a_running_job_that_was_asked_to_stop_is_cancelled_by_its_rescue(db: Session) -> None:
    held = started(db, lease="1 second", max_attempts=1)
    call(db, "cancel", id=held.id)
    shift_clock(db, "2 seconds")
    assert value(db, "rescue") == 1
    assert state_of(db, held.id) == "cancelled"


def test_cancelling_again_keeps_the_first_reason(db: Session) -> None:
    held = started(db)
    assert value(db, "cancel", id=held.id, reason="first") == "requested"
    assert value(db, "cancel", id=held.id, reason="second") == "requested"
    fail(db, held)
    assert job(db, held.id)["cancel_reason"] == "first"


def test_what_is_over_stays_as_it_ended(db: Session) -> None:
    done, died = started(db), started(db)
    complete(db, done)
    fail(db, died, no_retry=True)
    gone = enqueue(db)
    call(db, "cancel", id=gone)
    before = states(db)
    assert [value(db, "cancel", id=id) for id in (done.id, died.id, gone)] == ["over"] * 3
    assert states(db) == before
    assert stats(db) == {"completed": 1, "dead": 1, "cancelled": 1}


def test_nobody_is_waited_for(db: Session, other: Session) -> None:
    id = enqueue(db)
    with other.transaction():
        scalar(other, "select id from wakeful.job where id = %s for update", id)
        assert value(db, "cancel", id=id) == "busy"
    assert value(db, "cancel", id=id) == "cancelled"


def test_a_set_is_answered_one_by_one(db: Session) -> None:
    running, waiting, unknown = started(db).id, enqueue(db), uuid4()
    told = {row["id"]: row["answer"] for row in call(db, "cancel_many", ids=[unknown, running, waiting])}
    assert told == {unknown: "unknown", running: "requested", waiting: "cancelled"}
    assert call(db, "cancel_many", ids=[]) == []


def test_each_act_leaves_an_audit_row(db: Session) -> None:
    held, waiting = started(db), enqueue(db)
    call(db, "cancel_many", ids=[held.id, waiting, uuid4()], reason="why", actor="ann")
    acts = query(db, "select actor, act, job_id, details from wakeful.audits order by details ->> 'from'")
    assert acts == [
        {"actor": "ann", "act": "cancel", "job_id": id, "details": {"reason": "why", "from": state}}
        for id, state in ((waiting, "ready"), (held.id, "running"))
    ]
    call(db, "cancel", id=held.id)
    assert scalar(db, "select count(*) from wakeful.audits where actor = session_user") == 1


def test_the_worker_of_a_running_job_is_told(db: Session, kept_database: Database) -> None:
    workers = [register(db), register(db)]
    for _ in range(3):
        enqueue(db)
    (first, second), _ = worker_claim(db, workers[0], want=2)
    with session(kept_database.dsn) as listener, session(kept_database.dsn) as stranger:
        ear, uninvolved = Ear(listener, workers[0]), Ear(stranger, workers[1])
        call(db, "cancel_many", ids=[first.id, second.id])
        assert ear.heard(db) == [{"cancel": True}]
        assert uninvolved.heard(db) == []
    told = call(
        db,
        "pulse_1",
        worker_id=workers[0],
        lease="1 hour",
        canary=None,
        queues=["default"],
        lanes=[1],
        limits=[0],
        tasks=["t"],
    )
    assert {id for row in told for id in row["cancelled"] or ()} == {first.id, second.id}
