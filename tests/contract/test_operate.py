"""`requeue`, `retry_now`, `bury`, `acknowledge` and `purge`: what a person may do to jobs."""

from __future__ import annotations

from uuid import uuid4

from tests.sessions import MISSING, REFUSED, Session, call, query, refusal, value
from tests.verbs import (
    Held,
    claim_one,
    complete,
    enqueue,
    fail,
    job,
    started,
    state_of,
    states,
    stats,
)


def dead(db: Session, **options: object) -> Held:
    held = started(db, **options)  # type: ignore[arg-type]
    fail(db, held, no_retry=True)
    return held


def test_a_dead_letter_is_put_back_as_a_new_job_linked_both_ways(db: Session) -> None:
    old = dead(db, payload={"a": None}, priority=3, tenant="acme", max_attempts=4, correlation_id=uuid4(), queue="slow")
    new = value(db, "requeue", id=old.id, actor="ann")
    before, after = job(db, old.id), job(db, new)
    assert after["state"] == "ready"
    kept = ("task", "queue", "payload", "priority", "max_attempts", "tenant", "correlation_id")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert (after["attempt"], after["epoch"], after["origin_id"]) == (0, 0, old.id)
    assert before["requeued_as"] == new
    assert after["metadata"] == {"idempotency_key": str(old.id)}
    [letter] = query(db, "select * from wakeful.dead_letters")
    assert (letter["acknowledged"], letter["acknowledged_by"]) == (True, "ann")
    assert letter["requeued_at"] is not None


def test_a_dead_letter_is_put_back_once(db: Session) -> None:
    old = dead(db)
    assert len({value(db, "requeue", id=old.id) for _ in range(3)}) == 1
    assert stats(db) == {"ready": 1, "dead": 1}


def test_the_idempotency_key_is_the_first_jobs_however_often_it_dies(db: Session) -> None:
    first = dead(db)
    second = value(db, "requeue", id=first.id)
    fail(db, claim_one(db), no_retry=True)
    third = value(db, "requeue", id=second)
    assert job(db, third)["metadata"]["idempotency_key"] == str(first.id)
    assert job(db, third)["origin_id"] == second


def test_a_finished_job_can_be_run_once_more(db: Session) -> None:
    held = started(db, payload={"n": 1})
    complete(db, held)
    new = value(db, "requeue", id=held.id)
    assert new != held.id
    assert (job(db, new)["payload"], job(db, new)["origin_id"]) == ({"n": 1}, held.id)
    assert states(db) == {held.id: "completed", new: "ready"}


def test_only_what_is_over_is_put_back(db: Session) -> None:
    for id in (enqueue(db), uuid4()):
        with refusal(MISSING):
            value(db, "requeue", id=id)
    assert stats(db) == {"ready": 1}


def test_nothing_is_put_back_while_enqueuing_of_its_task_is_off(db: Session) -> None:
    old = dead(db)
    value(db, "switch_task", name="t", enqueuing=False)
    with refusal(REFUSED):
        value(db, "requeue", id=old.id)
    [letter] = query(db, "select * from wakeful.dead_letters")
    assert (letter["acknowledged"], letter["requeued_as"]) == (False, None)


def test_a_put_back_job_whose_key_is_taken_is_stood_for_by_its_live_twin(db: Session) -> None:
    old = dead(db, dedup_key="k")
    twin = enqueue(db, dedup_key="k")
    assert value(db, "requeue", id=old.id) == twin
    assert job(db, old.id)["requeued_as"] == twin
    assert len(states(db)) == 2


def test_a_scheduled_job_is_hurried(db: Session) -> None:
    id = enqueue(db, delay="1 hour")
    assert value(db, "retry_now", id=id) is True
    assert state_of(db, id) == "ready"
    assert value(db, "retry_now", id=id) is False
    claim_one(db)
    assert value(db, "retry_now", id=id) is False
    for gone in (uuid4(), dead(db, task="other").id):
        with refusal(MISSING):
            value(db, "retry_now", id=gone)


def test_a_waiting_job_is_buried_by_hand_and_a_running_one_is_not(db: Session) -> None:
    waiting = enqueue(db, "a", payload={"n": None})
    call(db, "bury", id=waiting, reason="broken", actor="ann")
    over = job(db, waiting)
    assert (over["state"], over["last_error_code"], over["last_error_message"]) == ("dead", "buried", "broken")
    assert (over["payload"], over["attempt"]) == ({"n": None}, 0)
    running = started(db, "b")
    with refusal(REFUSED):
        call(db, "bury", id=running.id, reason="broken")
    with refusal(MISSING):
        call(db, "bury", id=uuid4(), reason="broken")
    assert stats(db) == {"running": 1, "dead": 1}


def test_a_dead_letter_is_acknowledged_once_by_someone(db: Session) -> None:
    old = dead(db)
    assert value(db, "acknowledge", id=old.id, actor="ann") is True
    assert value(db, "acknowledge", id=old.id, actor="bob") is False
    [letter] = query(db, "select * from wakeful.dead_letters")
    assert (letter["acknowledged_by"], letter["acknowledged"]) == ("ann", True)
    assert letter["acknowledged_at"] is not None
    with refusal(MISSING):
        value(db, "acknowledge", id=uuid4())


def test_putting_back_keeps_who_acknowledged_it_before(db: Session) -> None:
    old = dead(db)
    value(db, "acknowledge", id=old.id, actor="ann")
    value(db, "requeue", id=old.id, actor="bob")
    [letter] = query(db, "select acknowledged_by from wakeful.dead_letters")
    assert letter["acknowledged_by"] == "ann"


def test_dead_letters_are_purged_by_name_and_the_counts_follow(db: Session) -> None:
    first, second, kept = dead(db), dead(db), dead(db)
    value(db, "fold_tally")
    assert value(db, "purge", ids=[first.id, second.id, uuid4()], actor="ann") == 2
    assert states(db) == {kept.id: "dead"}
    assert stats(db) == {"dead": 1}
    acts = query(db, "select actor, act, job_id from wakeful.audits order by job_id")
    assert acts == [{"actor": "ann", "act": "purge", "job_id": id} for id in sorted((first.id, second.id))]


def test_every_act_is_audited_and_a_refused_one_is_not(db: Session) -> None:
    old = dead(db, task="a")
    scheduled = enqueue(db, "b", delay="1 hour")
    waiting = enqueue(db, "c")
    value(db, "acknowledge", id=old.id, actor="ann")
    new = value(db, "requeue", id=old.id, actor="ann")
    value(db, "requeue", id=old.id, actor="ann")
    value(db, "retry_now", id=scheduled, actor="ann")
    call(db, "bury", id=waiting, reason="why", actor="ann")
    with refusal(MISSING):
        value(db, "retry_now", id=uuid4(), actor="ann")
    acts = query(db, "select act, job_id, details from wakeful.audits where actor = 'ann' order by id")
    assert acts == [
        {"act": "acknowledge", "job_id": old.id, "details": None},
        {"act": "requeue", "job_id": old.id, "details": {"as": str(new)}},
        {"act": "retry_now", "job_id": scheduled, "details": None},
        {"act": "bury", "job_id": waiting, "details": {"reason": "why"}},
    ]
