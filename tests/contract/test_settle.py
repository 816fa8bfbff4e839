"""`complete`, `fail`, `snooze`, `release` and `extend`: what becomes of a claimed job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.sessions import INVALID, Session, call, query, refusal, scalar, shift_clock, value
from tests.verbs import (
    Held,
    claim_one,
    complete,
    enqueue,
    fail,
    job,
    register,
    settle,
    started,
    state_of,
    states,
    stats,
    worker_claim,
)


@pytest.mark.parametrize("result", [None, 1, "text", [1, None], {"a": None}, False])
def test_a_completed_job_keeps_its_result_and_all_that_was_asked(db: Session, result: object) -> None:
    asked = {"n": None, "deep": {"er": [None]}}
    held = started(db, payload=asked, tenant="acme", dedup_key="k", priority=7, metadata={"x": None})
    before = job(db, held.id)
    complete(db, held, result)
    after = job(db, held.id)
    assert after["state"] == "completed"
    assert after["result"] == result
    kept = set(before) - {"state", "result", "finished_at", "updated_at", "lease_expires_at"}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert after["started_at"] <= after["finished_at"]


def test_a_set_of_results_finds_its_jobs(db: Session) -> None:
    worker = uuid4()
    helds = [started(db, worker=worker) for _ in range(3)]
    call(
        db,
        "complete_1",
        worker_id=worker,
        ids=[held.id for held in helds],
        epochs=[held.epoch for held in helds],
        results=["1", None, '{"n": 3}'],
    )
    assert [job(db, held.id)["result"] for held in helds] == [1, None, {"n": 3}]


def test_a_failed_job_waits_and_tells_what_went_wrong(db: Session) -> None:
    held = started(db)
    fail(db, held, code="E42", message="no luck", details={"at": None, "line": 3}, retry_in="30 seconds")
    waiting = job(db, held.id)
    assert (waiting["state"], waiting["attempt"], waiting["worker_id"]) == ("scheduled", 1, None)
    assert (waiting["last_error_code"], waiting["last_error_message"]) == ("E42", "no luck")
    assert waiting["run_at"] - waiting["updated_at"] == timedelta(seconds=30)
    [entry] = waiting["attempts"]
    assert entry["details"] == {"at": None, "line": 3}
    assert waiting["last_error_at"] == waiting["updated_at"]


def test_a_failure_without_a_wait_backs_off_by_the_number_of_starts(db: Session) -> None:
    held = started(db, max_attempts=20)
    for attempt in range(1, 12):
        fail(db, held)
        waiting = job(db, held.id)
        seconds = (waiting["run_at"] - waiting["updated_at"]).total_seconds()
        assert 0.9 <= seconds / min(300, 2 ** (attempt - 1)) <= 1.1
        call(db, "retry_now", id=held.id)
        held = claim_one(db)


def test_a_failure_with_no_wait_is_ready_at_the_end_of_the_line(db: Session) -> None:
    held = started(db)
    waiting = enqueue(db)
    fail(db, held, retry_in="0")
    assert [claim_one(db).id for _ in range(2)] == [waiting, held.id]


def test_the_last_start_that_fails_kills_the_job(db: Session) -> None:
    id = enqueue(db, max_attempts=3)
    for attempt in (1, 2, 3):
        held = claim_one(db)
        assert held.row["attempt"] == attempt
        fail(db, held, retry_in="0", message=f"try {attempt}")
    assert state_of(db, id) == "dead"
    assert job(db, id)["last_error_message"] == "try 3"


def test_a_failure_with_no_retry_kills_the_job_at_once(db: Session) -> None:
    held = started(db, max_attempts=5)
    fail(db, held, no_retry=True)
    assert state_of(db, held.id) == "dead"


def test_a_dead_letter_holds_the_original_job_to_the_last_null(db: Session) -> None:
    payload = {"a": None, "b": [None, {"c": None}]}
    held = started(db, payload=payload, metadata={"m": None}, tenant="acme", priority=3, dedup_key="k")
    fail(db, held, no_retry=True, code="E1", message="why", details={"d": None})
    [letter] = query(db, "select * from wakeful.dead_letters")
    assert (letter["error_code"], letter["error_message"], letter["error_details"]) == (
        *("E1", "why"),
        {"d": None},
    )
    assert (letter["task"], letter["queue"], letter["tenant"], letter["attempt"]) == ("t", "default", "acme", 1)
    assert (letter["acknowledged"], letter["requeued_as"]) == (False, None)
    original = letter["original_job"]
    assert (original["payload"], original["metadata"]) == (payload, {"m": None})
    assert (original["epoch"], original["rank"], original["dedup_key"]) == (1, -3, "k")
    dead = job(db, held.id)
    assert (dead["payload"], dead["priority"], dead["max_attempts"]) == (payload, 3, 5)


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("fail", {"code": "c", "message": "m", "retry_in": "-1 second"}),
        ("snooze", {"delay": "-1 second"}),
        ("snooze", {"delay": None}),
        ("extend", {"lease": "0"}),
        ("extend", {"lease": None}),
    ],
)
def test_an_impossible_wait_is_refused(db: Session, verb: str, arguments: dict[str, object]) -> None:
    held = started(db)
    with refusal(INVALID):
        call(db, verb, **held.fence, **arguments)
    assert state_of(db, held.id) == "running"


def test_an_infinite_wait_is_refused_where_there_is_such_a_thing(db: Session) -> None:
    if db.info.server_version < 170000:
        pytest.skip("intervals are finite before PostgreSQL 17")
    held = started(db)
    for verb, arguments in (
        ("fail", {"code": "c", "message": "m", "retry_in": "infinity"}),
        ("snooze", {"delay": "infinity"}),
        ("extend", {"lease": "infinity"}),
    ):
        with refusal(INVALID):
            call(db, verb, **held.fence, **arguments)
    with refusal(INVALID):
        enqueue(db, delay="infinity")
    assert states(db) == {held.id: "running"}


def test_a_snoozed_start_is_not_charged(db: Session) -> None:
    held = started(db, max_attempts=1)
    for _ in range(3):
        call(db, "snooze", **held.fence, delay="1 hour", reason="not yet")
        waiting = job(db, held.id)
        assert (waiting["state"], waiting["attempt"]) == ("scheduled", 0)
        assert waiting["run_at"] - waiting["updated_at"] == timedelta(hours=1)
        call(db, "retry_now", id=held.id)
        held = claim_one(db)
    assert held.epoch == 4
    assert held.row["attempt"] == 1


def test_a_released_start_is_not_charged_and_ready_at_once(db: Session) -> None:
    held = started(db, max_attempts=1)
    call(db, "release", **held.fence)
    waiting = job(db, held.id)
    assert (waiting["state"], waiting["attempt"], waiting["worker_id"]) == ("ready", 0, None)
    fail(db, claim_one(db), retry_in="0")
    assert state_of(db, held.id) == "dead"


def test_extend_renews_the_jobs_own_lease(db: Session) -> None:
    held = started(db, lease="10 seconds")
    shift_clock(db, "8 seconds")
    assert value(db, "extend", **held.fence, lease="10 seconds") is True
    shift_clock(db, "8 seconds")
    assert value(db, "rescue") == 0
    shift_clock(db, "3 seconds")
    assert value(db, "rescue") == 1


def test_extend_does_not_wait_for_a_row_that_someone_holds(db: Session, other: Session) -> None:
    worker = uuid4()
    kept, free = started(db, worker=worker), started(db, worker=worker)
    with other.transaction():
        scalar(other, "select id from wakeful.job where id = %s for update", kept.id)
        assert value(db, "extend", **kept.fence, lease="1 hour") is False
        told = query(
            db,
            "select * from wakeful.extend_1(%s, %s, %s::bigint[], '{1 hour, 1 hour}'::interval[])",
            *(worker, [kept.id, free.id], [kept.epoch, free.epoch]),
        )
    assert told == [{"id": kept.id, "refused": "locked"}]
    assert value(db, "extend", **kept.fence, lease="1 hour") is True


def test_each_attempt_is_kept_with_the_job(db: Session) -> None:
    first = started(db, lease="1 second")
    fail(db, first, code="E1", message="one", retry_in="0")
    second = claim_one(db)
    call(db, "snooze", **second.fence, delay="0", reason="later")
    third = claim_one(db, lease="1 second")
    shift_clock(db, "2 seconds")
    last = claim_one(db)
    complete(db, last)
    over = job(db, first.id)
    told = [(a["epoch"], a["attempt"], a["outcome"], a.get("code")) for a in over["attempts"]]
    assert told == [
        (1, 1, "failed", "E1"),
        (2, 2, "snoozed", None),
        (3, 2, "lapsed", "lease_lapsed"),
    ]
    holders = [str(held.worker_id) for held in (first, second, third)]
    assert [entry["worker_id"] for entry in over["attempts"]] == holders
    for entry in over["attempts"]:
        assert entry["started_at"] <= entry["ended_at"]
    # The start that completed it is told by the row itself.
    assert (over["epoch"], over["attempt"], over["worker_id"]) == (4, 3, last.worker_id)


def test_the_newest_hundred_attempts_are_kept(db: Session) -> None:
    held = started(db)
    for _ in range(105):
        call(db, "release", **held.fence)
        held = claim_one(db)
    epochs = [entry["epoch"] for entry in job(db, held.id)["attempts"]]
    assert epochs == list(range(6, 106))


def test_settling_set_wise_takes_each_by_its_own_outcome(db: Session) -> None:
    worker = uuid4()
    outcomes = [("failed", "1 hour"), ("failed", None), ("snoozed", "1 hour"), ("released", "0")]
    helds: list[Held] = [started(db, worker=worker) for _ in range(5)]
    endings = [
        (held.id, held.epoch, *ending) for held, ending in zip(helds, [*outcomes, ("cancelled", None)], strict=True)
    ]
    assert settle(db, worker, endings) == []
    assert [state_of(db, held.id) for held in helds] == [*("scheduled", "dead", "scheduled", "ready", "cancelled")]
    assert [job(db, held.id)["attempt"] for held in helds] == [1, 1, 0, 0, 1]


@pytest.mark.parametrize("outcome", ["completed", "", None])
def test_an_unknown_outcome_is_refused(db: Session, outcome: Any) -> None:
    held = started(db)
    with refusal(INVALID):
        settle(db, held.worker_id, [(held.id, held.epoch, outcome, "0")])
    assert state_of(db, held.id) == "running"


@pytest.mark.parametrize("leases", ["{null}", "{0}", "{-1 second}", "{}", None])
def test_a_job_cannot_be_left_without_a_lease(db: Session, leases: str | None) -> None:
    held = started(db)
    with refusal(INVALID):
        query(
            db,
            "select * from wakeful.extend_1(%s, %s, %s::bigint[], %s::interval[])",
            *(held.worker_id, [held.id], [held.epoch], leases),
        )


def test_a_job_that_asks_for_a_checkpoint_finds_it_in_its_next_attempt(db: Session) -> None:
    worker = register(db)
    id = enqueue(db)
    [held], _ = worker_claim(db, worker)
    value(db, "note_1", **held.fence, saved={"page": 3}, counters={"rows": 2})
    value(db, "note_1", **held.fence, progress={"done": 0.5}, counters={"rows": 3, "bad": 1})
    fail(db, held, retry_in="0")
    [again], _ = worker_claim(db, worker)
    assert again.row["saved"] == {"page": 3}
    complete(db, again)
    assert job(db, id)["counters"] == {"rows": 5, "bad": 1}
    assert job(db, id)["progress"] == {"done": 0.5}


def test_every_end_is_counted_once(db: Session) -> None:
    worker = uuid4()
    ends = [started(db, worker=worker) for _ in range(4)]
    complete(db, ends[0])
    fail(db, ends[1], no_retry=True)
    settle(db, worker, [(ends[2].id, 1, "cancelled", None)])
    assert stats(db) == {"running": 1, "completed": 1, "dead": 1, "cancelled": 1}
