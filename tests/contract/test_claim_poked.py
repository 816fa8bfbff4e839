"""`wakeful.claim_poked_1`: the job that a poke named, unless there is anything special about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.sessions import LAPSED, Session, refusal, scalar, shift_clock, value
from tests.verbs import claim, complete, enqueue, job, poked_claim, register, started, state_of, stats, worker_claim


def test_the_job_that_was_named_is_started_like_any_other(db: Session) -> None:
    worker, id = register(db), enqueue(db, "t", {"n": 1}, tenant="acme", metadata={"m": 1}, priority=7)
    [held] = poked_claim(db, worker, id)
    running = job(db, id)
    assert (held.id, held.epoch, held.row["rank"], held.row["payload"]) == (id, 1, -7, {"n": 1})
    assert (held.row["tenant"], held.row["metadata"], held.row["started_at"]) == (
        *("acme", {"m": 1}),
        running["started_at"],
    )
    assert (running["state"], running["attempt"], running["epoch"], running["worker_id"]) == ("running", 1, 1, worker)
    assert held.row["lease_expires_at"] is None, "it lives by its worker's lease"
    complete(db, held)
    assert state_of(db, id) == "completed"


def test_what_comes_back_is_what_a_plain_claim_gives(db: Session) -> None:
    worker = register(db)
    asked: list[dict[str, Any]] = [{}, {"parent_id": uuid4(), "created_by": "me", "tenant": "acme"}]
    for options in asked:
        [named] = poked_claim(db, worker, enqueue(db, **options))
        value(db, "release", **named.fence)
        [plain] = worker_claim(db, worker)[0]
        differ = {name for name in plain.row if plain.row[name] != named.row[name]}
        assert differ <= {"epoch", "attempt", "started_at", "ready_at", "run_at", "attempts"}
        assert plain.row.keys() == named.row.keys()
        complete(db, plain)


def test_only_the_named_one_is_taken_wherever_it_stands_in_line(db: Session) -> None:
    first, named, last = (enqueue(db) for _ in range(3))
    assert [held.id for held in poked_claim(db, register(db), named)] == [named]
    assert {state_of(db, id) for id in (first, last)} == {"ready"}


def test_when_it_is_gone_whatever_is_in_line_is_taken(db: Session) -> None:
    gone, other = started(db), enqueue(db)
    assert [held.id for held in poked_claim(db, register(db), gone.id)] == [other]
    assert job(db, gone.id)["attempt"] == 1


def paused_queue(db: Session, id: UUID) -> None:
    value(db, "pause_queue", name="default")


def paused_task(db: Session, id: UUID) -> None:
    value(db, "pause_task", name="t")


def full_task(db: Session, id: UUID) -> None:
    value(db, "set_task_policy", task="t", concurrency=1)
    assert claim(db, want=1)[0].id != id


def full_queue(db: Session, id: UUID) -> None:
    value(db, "set_queue_policy", queue="default", concurrency=1)
    assert claim(db, want=1)[0].id != id


def open_breaker(db: Session, id: UUID) -> None:
    value(db, "set_task_policy", task="t", breaker="smtp")
    value(db, "trip_breaker", name="smtp")


def suspected(db: Session, id: UUID) -> None:
    db.execute("update wakeful.job set suspect = true")


def expired(db: Session, id: UUID) -> None:
    db.execute("update wakeful.job set expires_at = wakeful.now() - interval '1 second'")


def later(db: Session, id: UUID) -> None:
    db.execute("update wakeful.job set state = 0, ready_at = null, run_at = wakeful.now() + interval '1 hour'")


def of_another_task(db: Session, id: UUID) -> None:
    db.execute("update wakeful.job set task = 'other'")


def in_another_queue(db: Session, id: UUID) -> None:
    db.execute("update wakeful.job set queue = 'other'")


@pytest.mark.parametrize(
    "hinder",
    [
        *(paused_queue, paused_task, full_task, full_queue, open_breaker),
        *(suspected, expired, later, of_another_task, in_another_queue),
    ],
)
def test_what_holds_up_a_plain_claim_holds_up_this_one(db: Session, hinder: Callable[[Session, UUID], None]) -> None:
    worker, _, id = register(db), enqueue(db, priority=1), enqueue(db)
    hinder(db, id)
    assert poked_claim(db, worker, id) == []
    assert scalar(db, "select coalesce(max(attempt), 0) from wakeful.job where worker_id = %s", worker) == 0


def test_a_job_that_is_parked_behind_its_key_is_left_there(db: Session) -> None:
    value(db, "set_task_policy", task="t", concurrency=1, key="tenant")
    ids = [enqueue(db, tenant="acme") for _ in range(3)]
    worker = register(db)
    assert len(worker_claim(db, worker)[0]) == 1
    [parked, *_] = [id for id in ids if state_of(db, id) == "ready"]
    # The policy is gone, and the job is parked still: a claim that looks at it sees to that.
    db.execute("delete from wakeful.task_policy")
    assert poked_claim(db, worker, parked) == []


def test_in_a_fair_queue_it_waits_for_its_turn(db: Session) -> None:
    value(db, "set_queue_policy", queue="default", fair=True)
    worker = register(db)
    ids = [enqueue(db, tenant=tenant) for tenant in ("a", "a", "b")]
    assert {held.id for held in poked_claim(db, worker, ids[1])} == set(ids), "the long way: all that are in line"


def test_a_worker_whose_lease_has_lapsed_is_refused(db: Session) -> None:
    worker, id = register(db, lease="10 seconds"), enqueue(db)
    shift_clock(db, "11 seconds")
    with refusal(LAPSED):
        poked_claim(db, worker, id)
    with refusal(LAPSED):
        poked_claim(db, uuid4(), id)
    assert stats(db) == {"ready": 1}
