"""`pause_queue`, `pause_task`, `resume_…` and `switch_task`: the switches."""

from __future__ import annotations

import pytest

from tests.sessions import INVALID, Ear, Session, query, refusal, session, value
from tests.verbs import claim_one, enqueue, enqueue_many, started, states
from wakeful.testing import Database


def test_a_switch_is_one_row_that_tells_who_and_why(db: Session) -> None:
    value(db, "pause_task", name="t", actor="ann", reason="on fire")
    value(db, "switch_task", name="t", enqueuing=False, actor="bob", reason="full")
    [row] = query(db, "select * from wakeful.controls")
    assert (row["kind"], row["name"], row["paused"], row["enqueuing"]) == ("task", "t", True, False)
    assert (row["changed_by"], row["reason"]) == ("bob", "full")
    value(db, "resume_task", name="t")
    [row] = query(db, "select paused, enqueuing, changed_by = session_user as mine from wakeful.controls")
    assert row == {"paused": False, "enqueuing": False, "mine": True}


def test_a_queue_and_a_task_of_one_name_are_apart(db: Session) -> None:
    value(db, "pause_queue", name="t")
    id = enqueue(db, "t")
    assert claim_one(db).id == id


@pytest.mark.parametrize("verb", ["pause_queue", "resume_queue", "pause_task", "resume_task"])
@pytest.mark.parametrize("name", ["", None])
def test_what_has_no_name_is_refused(db: Session, verb: str, name: str | None) -> None:
    with refusal(INVALID):
        value(db, verb, name=name)


def test_resuming_asks_everyone_to_look(db: Session, kept_database: Database) -> None:
    with session(kept_database.dsn) as listener:
        ear = Ear(listener)
        value(db, "pause_queue", name="q")
        value(db, "switch_task", name="t", enqueuing=False)
        value(db, "switch_task", name="t", enqueuing=True)
        assert ear.heard(db) == []
        value(db, "resume_queue", name="q")
        assert ear.heard(db) == [{"look": True}]
        value(db, "resume_task", name="t")
        assert ear.heard(db) == [{"look": True}]


def test_a_switch_acts_at_once_for_every_session(db: Session, other: Session) -> None:
    enqueue(other)
    value(db, "switch_task", name="t", enqueuing=False)
    assert value(other, "enqueue", task="t") is None
    assert [row["action"] for row in enqueue_many(other, [{"task": "t"}, {"task": "u"}])] == [*("off", "inserted")]


def test_a_rolled_back_switch_does_nothing(db: Session) -> None:
    with db.transaction(force_rollback=True):
        value(db, "pause_task", name="t")
    started(db)
    assert query(db, "select * from wakeful.controls") == []
    assert len(states(db)) == 1


def test_every_turn_of_a_switch_is_audited(db: Session) -> None:
    value(db, "pause_queue", name="q", actor="ann")
    value(db, "resume_queue", name="q", actor="ann")
    value(db, "switch_task", name="t", enqueuing=False, actor="ann")
    value(db, "switch_task", name="t", enqueuing=True, actor="ann", reason="why")
    acts = query(db, "select act, details from wakeful.audits where actor = 'ann' order by id")
    assert [row["act"] for row in acts] == ["pause", "resume", "enqueue_off", "enqueue_on"]
    assert acts[0]["details"] == {"kind": "queue", "name": "q", "reason": None}
    assert acts[3]["details"] == {"kind": "task", "name": "t", "reason": "why"}
