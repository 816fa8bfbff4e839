"""Explain: the facts of one job, and the sentences that they become."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.sessions import MISSING, Session, call, refusal, shift_clock, value
from tests.verbs import claim_one, complete, enqueue, fail, register, started, worker_claim
from wakeful.observe.reasons import answer, timeline


def facts(db: Session, id: UUID) -> dict[str, Any]:
    found: dict[str, Any] = value(db, "explain", id=id)
    return found


def told(db: Session, id: UUID) -> str:
    return " ".join(answer(facts(db, id)))


def test_an_unknown_id_is_refused(db: Session) -> None:
    with refusal(MISSING, "no job has id"):
        facts(db, uuid4())


def test_a_scheduled_job_says_when_it_is_due_and_why(db: Session) -> None:
    register(db)
    asked = enqueue(db, delay="90 seconds")
    assert "It was enqueued for later: it is due in 1 min 30 s" in told(db, asked)
    held = started(db)
    fail(db, held, retry_in="1 hour", code="Timeout", message="too slow")
    assert "Attempt 1 of 5 failed (Timeout: too slow); it is tried again: it is due in" in told(db, held.id)


def test_a_ready_job_names_what_is_paused(db: Session) -> None:
    register(db)
    id = enqueue(db)
    call(db, "pause_queue", name="default", actor="ann", reason="deploy")
    assert "Queue default is paused by ann since" in told(db, id)
    call(db, "pause_task", name="t", actor="bob")
    assert "go on with `wakeful queues resume --task t`" in told(db, id)


def test_a_ready_job_that_nobody_serves_says_what_is_missing(db: Session) -> None:
    id = enqueue(db)
    assert "No worker is alive" in told(db, id)
    register(db, tasks=("other",))
    assert "No worker alive has the task t" in told(db, id)
    call(db, "register_1", worker_id=uuid4(), name="far", queues=["far"], tasks=["t"], slots=1, lease="1 hour")
    assert "No worker alive that has the task serves queue default" in told(db, id)


@pytest.mark.parametrize(
    ("task", "meant"), [("mail", "shop.mail"), ("crm.mail", "shop.mail"), ("shop.mial", "shop.mail"), ("weigh", None)]
)
def test_a_task_that_nobody_has_is_told_with_the_one_that_may_be_meant(
    db: Session, task: str, meant: str | None
) -> None:
    register(db, tasks=("shop.bill", "shop.mail"))
    said = told(db, enqueue(db, task=task))
    assert f"No worker alive has the task {task}" in said
    assert ("is served" in said) == (meant is not None)
    assert f"check the name{f', {meant} is served' if meant else ''}." in said


def test_a_ready_job_knows_its_place_in_line(db: Session) -> None:
    worker = register(db)
    for _ in range(3):
        enqueue(db)
    id = enqueue(db, priority=-1)
    assert "Before it in line: 3 ready jobs" in told(db, id)
    worker_claim(db, worker, want=3)
    assert "first in line" in told(db, id)
    for _ in range(4):
        enqueue(db, priority=10)
    worker_claim(db, worker, want=4)
    assert "All slots of the worker that serves it are taken" in told(db, id)


def test_a_running_job_tells_who_holds_it(db: Session) -> None:
    worker = register(db)
    id = enqueue(db)
    [held], _ = worker_claim(db, worker)
    call(db, "note_1", **held.fence, progress={"percent": 40, "message": "halfway"})
    value(db, "cancel", id=id, reason="wrong")
    sentences = told(db, id)
    assert "start 1 of 5, at w." in sentences
    assert "40 % done: halfway" in sentences
    assert "asked to stop" in sentences
    shift_clock(db, "2 hours")
    assert "lease has lapsed" in told(db, id)


def test_what_is_over_has_its_story(db: Session) -> None:
    held = started(db)
    fail(db, held, retry_in="0", code="E", message="once")
    complete(db, claim_one(db))
    assert told(db, held.id).startswith("It completed")
    assert [one.what.split(" by ")[0] for one in timeline(facts(db, held.id))] == [
        "enqueued",
        "attempt 1 started",
        "attempt 1 failed (E: once)",
        "attempt 2 started",
        "completed",
    ]


def test_a_dead_job_says_why_and_how_it_is_brought_back(db: Session) -> None:
    held = started(db)
    fail(db, held, no_retry=True, code="E", message="for good")
    assert "after 1 of 5 starts: E: for good" in told(db, held.id)
    assert f"wakeful replay {held.id}" in told(db, held.id)
    again = value(db, "requeue", id=held.id, actor="ann")
    assert f"put back as job {again}" in told(db, held.id)
    assert "requeue by ann" in [one.what for one in timeline(facts(db, held.id))]


def test_a_rerun_that_waits_for_its_twin_is_told_of(db: Session) -> None:
    held = started(db, dedup_key="k")
    enqueue(db, dedup_key="k", dedup="rerun")
    assert "asked for again meanwhile" in told(db, held.id)
