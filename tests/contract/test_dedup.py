"""Dedup by (task, dedup_key) among live jobs: skip, raise, replace, debounce, rerun."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.sessions import DUPLICATE, Session, call, query, scalar, shift_clock, value
from tests.verbs import Held, claim_one, complete, enqueue, fail, job, started, state_of, states


def test_skip_returns_the_live_twin_and_says_so(db: Session) -> None:
    notices: list[str] = []
    db.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
    first = enqueue(db, "t", {"n": 1}, dedup_key="k")
    assert enqueue(db, "t", {"n": 2}, dedup_key="k") == first
    assert enqueue(db, "t", {"n": 3}, dedup_key="k", dedup="skip") == first
    assert job(db, first)["payload"] == {"n": 1}
    assert notices == [f"wakeful: no job made for task t (job {first} has its dedup_key)"] * 2


def test_the_key_is_the_tasks_own(db: Session) -> None:
    assert len({enqueue(db, task, dedup_key="k") for task in ("a", "b", "c")}) == 3


def test_a_key_is_free_again_when_its_job_is_over(db: Session) -> None:
    for end in ("complete", "die", "cancel"):
        held = started(db, dedup_key="k")
        if end == "complete":
            complete(db, held)
        elif end == "die":
            fail(db, held, no_retry=True)
        else:
            call(db, "cancel", id=held.id)
            fail(db, held)
    assert sorted(states(db).values()) == ["cancelled", "completed", "dead"]


def test_raise_tells_which_job_is_in_the_way(db: Session) -> None:
    first = enqueue(db, dedup_key="k")
    with pytest.raises(psycopg.Error) as caught:
        enqueue(db, dedup_key="k", dedup="raise")
    assert caught.value.sqlstate == DUPLICATE
    assert str(first) in (caught.value.diag.message_detail or "")
    assert len(states(db)) == 1


@pytest.mark.parametrize("mode", ["replace", "rerun"])
def test_a_waiting_job_takes_the_newest_payload_and_time(db: Session, mode: str) -> None:
    first = enqueue(db, "t", {"n": 1}, dedup_key="k", priority=3)
    again = enqueue(db, "t", {"n": 2}, dedup_key="k", dedup=mode, delay="1 hour", metadata={"by": "two"})
    moved = job(db, first)
    assert again == first
    assert (moved["payload"], moved["state"], moved["ready_at"]) == ({"n": 2}, "scheduled", None)
    assert (moved["metadata"], moved["priority"]) == ({"by": "two"}, 3)
    assert timedelta(minutes=59) < moved["run_at"] - moved["created_at"] < timedelta(minutes=61)
    enqueue(db, "t", {"n": 3}, dedup_key="k", dedup=mode, priority=9)
    assert (job(db, first)["state"], job(db, first)["priority"]) == ("ready", 9)


def test_a_replaced_job_that_was_ready_keeps_its_place_in_line(db: Session) -> None:
    first = enqueue(db, dedup_key="k")
    before = job(db, first)["ready_at"]
    enqueue(db)
    enqueue(db, "t", {"n": 2}, dedup_key="k", dedup="replace")
    assert job(db, first)["ready_at"] == before
    assert claim_one(db).id == first


def test_replace_leaves_a_running_job_alone(db: Session) -> None:
    held = started(db, payload={"n": 1}, dedup_key="k")
    assert enqueue(db, "t", {"n": 2}, dedup_key="k", dedup="replace") == held.id
    complete(db, held)
    assert states(db) == {held.id: "completed"}
    assert job(db, held.id)["payload"] == {"n": 1}


def test_debounce_pushes_the_time_and_keeps_the_payload(db: Session) -> None:
    first = enqueue(db, "t", {"n": 1}, dedup_key="k", delay="10 seconds")
    shift_clock(db, "9 seconds")
    assert enqueue(db, "t", {"n": 2}, dedup_key="k", dedup="debounce", delay="10 seconds") == first
    shift_clock(db, "9 seconds")
    assert value(db, "promote", queues=["default"], tasks=["t"]) == 0
    shift_clock(db, "2 seconds")
    assert value(db, "promote", queues=["default"], tasks=["t"]) == 1
    assert job(db, first)["payload"] == {"n": 1}


@pytest.mark.parametrize("mode", ["rerun", "debounce"])
def test_a_running_job_is_followed_by_one_with_the_newest_payload(db: Session, mode: str) -> None:
    held = started(db, payload={"n": 1}, dedup_key="k")
    following = enqueue(db, "t", {"n": 2}, dedup_key="k", dedup=mode, id=uuid4())
    newest = enqueue(db, "t", {"n": 3}, dedup_key="k", dedup=mode, queue="other", priority=4)
    assert following != held.id
    assert newest == following, "the id that was promised stays"
    assert states(db) == {held.id: "running"}, "never two live rows"
    complete(db, held)
    next_job = job(db, following)
    assert (next_job["state"], next_job["payload"], next_job["dedup_key"]) == ("ready", {"n": 3}, "k")
    assert (next_job["queue"], next_job["priority"]) == ("other", 4)
    assert next_job["correlation_id"] == job(db, held.id)["correlation_id"]


def test_a_debounced_rerun_waits_for_its_time(db: Session) -> None:
    held = started(db, dedup_key="k")
    following = enqueue(db, dedup_key="k", dedup="debounce", delay="1 hour")
    complete(db, held)
    assert state_of(db, following) == "scheduled"


@pytest.mark.parametrize("end", ["die", "cancel", "lapse", "bury"])
def test_the_rerun_starts_however_its_twin_ends(db: Session, end: str) -> None:
    held = started(db, dedup_key="k", max_attempts=1, lease="1 second")
    following = enqueue(db, "t", {"n": 2}, dedup_key="k", dedup="rerun")
    if end == "die":
        fail(db, held)
    elif end == "lapse":
        shift_clock(db, "2 seconds")
        assert value(db, "rescue") == 1
    elif end == "cancel":
        call(db, "cancel", id=held.id)
        fail(db, held)
    else:
        call(db, "release", **held.fence)
        call(db, "bury", id=held.id, reason="enough")
    assert state_of(db, held.id) in ("dead", "cancelled")
    assert (state_of(db, following), job(db, following)["payload"]) == ("ready", {"n": 2})


def test_a_rerun_outlives_the_retries_of_its_twin(db: Session) -> None:
    held = started(db, dedup_key="k", payload={"n": 1})
    following = enqueue(db, "t", {"n": 2}, dedup_key="k", dedup="rerun")
    fail(db, held, retry_in="0")
    assert states(db) == {held.id: "ready"}
    complete(db, claim_one(db))
    assert state_of(db, following) == "ready"


@pytest.mark.parametrize("mode", ["rerun", "replace"])
def test_the_newest_payload_is_the_last_to_run_after_a_retry_too(db: Session, mode: str) -> None:
    held = started(db, dedup_key="k", payload={"n": 1})
    following = enqueue(db, "t", {"n": 2}, dedup_key="k", dedup="rerun")
    fail(db, held, retry_in="0")
    assert enqueue(db, "t", {"n": 3}, dedup_key="k", dedup=mode) == following
    complete(db, claim_one(db))
    last = claim_one(db)
    assert (last.id, last.row["payload"]) == (following, {"n": 3})


def test_a_rerun_that_was_taken_on_is_not_lost_when_its_task_is_switched_off(db: Session) -> None:
    held = started(db, dedup_key="k")
    following = enqueue(db, dedup_key="k", dedup="rerun")
    value(db, "switch_task", name="t", enqueuing=False)
    complete(db, held)
    assert state_of(db, following) == "ready"


def test_a_reruns_correlation_is_its_own_its_parents_or_its_twins(db: Session) -> None:
    parent = enqueue(db, "parent", correlation_id=(of_parent := uuid4()))
    cases: list[tuple[dict[str, Any], UUID]] = [
        ({"correlation_id": (own := uuid4()), "parent_id": parent}, own),
        ({"parent_id": parent}, of_parent),
    ]
    for options, expected in cases:
        held = started(db, dedup_key="k")
        following = enqueue(db, dedup_key="k", dedup="rerun", **options)
        complete(db, held)
        assert job(db, following)["correlation_id"] == expected
        complete(db, claim_one(db, tasks=["t"]))


def test_a_resent_rerun_makes_no_second_one(db: Session) -> None:
    held = started(db, dedup_key="k")
    id = uuid4()
    asks = [enqueue(db, dedup_key="k", dedup="rerun", id=id) for _ in range(2)]
    complete(db, held)
    asks += [enqueue(db, dedup_key="k", dedup="rerun", id=id)]
    complete(db, claim_one(db))
    asks += [enqueue(db, dedup_key="k", dedup="rerun", id=id)]
    assert asks == [id] * 4
    assert states(db) == {held.id: "completed", id: "completed"}


def test_a_set_of_completions_starts_all_reruns(db: Session) -> None:
    worker = uuid4()
    running = [started(db, worker=worker, dedup_key=f"k{n}") for n in range(5)]
    following = [enqueue(db, dedup_key=f"k{n}", dedup="rerun") for n in range(5)]
    call(
        db,
        "complete_1",
        worker_id=worker,
        ids=[held.id for held in running],
        epochs=[held.epoch for held in running],
    )
    assert {id: state for id, state in states(db).items() if state == "ready"} == dict.fromkeys(following, "ready")


@pytest.mark.parametrize("mode", ["skip", "raise", "replace", "debounce", "rerun"])
def test_a_twin_that_is_past_its_time_takes_nothing_with_it(db: Session, mode: str) -> None:
    """It is about to be cancelled, and what had joined it would be lost."""
    late = enqueue(db, dedup_key="k", expires_at="2001-01-01")
    made = enqueue(db, "t", {"n": 2}, dedup_key="k", dedup=mode)
    assert states(db) == {late: "cancelled", made: "ready"}
    assert claim_one(db).row["payload"] == {"n": 2}


def test_the_unique_index_decides(own: Session) -> None:
    """Without it nothing else would keep two live twins apart: the modes only look after it has spoken."""
    enqueue(own, dedup_key="k")
    index = scalar(own, "select pg_get_indexdef('wakeful.job_dedup'::regclass)")
    assert "UNIQUE" in index
    assert "(task, dedup_key)" in index
    own.execute("drop index wakeful.job_dedup")
    enqueue(own, dedup_key="k")
    assert len(query(own, "select from wakeful.job where dedup_key = 'k'")) == 2


def test_the_loser_of_a_claim_is_told_by_skip_too(db: Session) -> None:
    held: Held = started(db, dedup_key="k")
    assert enqueue(db, dedup_key="k") == held.id
