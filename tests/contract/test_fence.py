"""The fence (id, epoch, worker_id): whoever does not hold the job changes nothing, and is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.sessions import STALE, Session, call, query, refusal, scalar, shift_clock, value
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

Verb = Callable[[Session, Held], object]

SINGLE: dict[str, Verb] = {
    "complete": complete,
    "fail": fail,
    "snooze": lambda db, held: call(db, "snooze", **held.fence, delay="1 minute"),
    "release": lambda db, held: call(db, "release", **held.fence),
    "extend": lambda db, held: call(db, "extend", **held.fence, lease="1 hour"),
}


def in_set(db: Session, verb: str, helds: list[Held]) -> list[dict[str, Any]]:
    """The set-wise form of a verb; the refused rows."""
    worker = helds[0].worker_id
    ids, epochs = [held.id for held in helds], [held.epoch for held in helds]
    if verb == "complete":
        return call(db, "complete_1", worker_id=worker, ids=ids, epochs=epochs)
    if verb == "extend":
        return query(
            db,
            "select * from wakeful.extend_1(%s, %s, %s::bigint[], array_fill(interval '1 hour', array[%s]))",
            *(worker, ids, epochs, len(ids)),
        )
    outcome, retry_in = {
        "fail": ("failed", "1 minute"),
        "snooze": ("snoozed", "1 minute"),
        "release": ("released", "0"),
        "cancel": ("cancelled", None),
    }[verb]
    return settle(db, worker, [(held.id, held.epoch, outcome, retry_in) for held in helds])


def forged(held: Held) -> list[Held]:
    """The claim with each of its parts wrong."""
    return [
        Held(uuid4(), held.epoch, held.worker_id, {}),
        Held(held.id, held.epoch + 1, held.worker_id, {}),
        Held(held.id, held.epoch - 1, held.worker_id, {}),
        Held(held.id, held.epoch, uuid4(), {}),
    ]


def everything(db: Session) -> list[dict[str, Any]]:
    return query(db, "select to_jsonb(j) as row from wakeful.job j order by id")


@pytest.mark.parametrize("verb", SINGLE)
def test_each_wrong_part_is_refused_and_nothing_changes(db: Session, verb: str) -> None:
    held = started(db)
    before = everything(db)
    for wrong in forged(held):
        with refusal(STALE, match="stale"):
            SINGLE[verb](db, wrong)
    assert everything(db) == before
    SINGLE[verb](db, held)
    assert everything(db) != before


@pytest.mark.parametrize("verb", [*SINGLE, "cancel"])
def test_each_wrong_part_is_refused_set_wise(db: Session, verb: str) -> None:
    held = started(db)
    before = everything(db)
    for wrong in forged(held):
        assert in_set(db, verb, [wrong]) == [{"id": wrong.id, "refused": "stale"}]
    assert everything(db) == before
    assert in_set(db, verb, [held]) == []


@pytest.mark.parametrize("verb", [*SINGLE, "cancel"])
def test_a_set_with_one_stale_row_settles_the_others_and_tells_which(db: Session, verb: str) -> None:
    worker = uuid4()
    good = [started(db, worker=worker) for _ in range(4)]
    lost = started(db, worker=worker, lease="1 second")
    shift_clock(db, "2 seconds")
    claim_one(db)
    before = job(db, lost.id)
    refused = in_set(db, verb, [*good[:2], lost, *good[2:]])
    assert refused == [{"id": lost.id, "refused": "stale"}]
    assert job(db, lost.id) == before
    moved = {"complete": "completed", "release": "ready", "extend": "running", "cancel": "cancelled"}
    assert {state_of(db, held.id) for held in good} == {moved.get(verb, "scheduled")}


@pytest.mark.parametrize("verb", [*SINGLE, "cancel"])
def test_a_job_that_waits_is_held_by_nobody(db: Session, verb: str) -> None:
    held = started(db)
    call(db, "release", **held.fence)
    assert [row["refused"] for row in in_set(db, verb, [held])] == ["settled"]
    assert state_of(db, held.id) == "ready"


@pytest.mark.parametrize("first", ["complete", "fail", "snooze", "release", "cancel"])
@pytest.mark.parametrize("second", ["complete", "fail", "snooze", "release", "cancel", "extend"])
def test_a_settlement_is_taken_once_and_its_repeat_is_told_so(db: Session, first: str, second: str) -> None:
    held = started(db)
    assert in_set(db, first, [held]) == []
    before = states(db)
    assert in_set(db, second, [held]) == [{"id": held.id, "refused": "settled"}]
    assert states(db) == before


def test_a_repeat_is_settled_and_not_stale_after_others_have_run_it_too(db: Session) -> None:
    held = started(db)
    fail(db, held, retry_in="0")
    again = claim_one(db)
    assert in_set(db, "complete", [held]) == [{"id": held.id, "refused": "settled"}]
    fail(db, again, no_retry=True)
    assert in_set(db, "complete", [held]) == [{"id": held.id, "refused": "settled"}]


@pytest.mark.parametrize("max_attempts", [1, 5])
def test_a_claim_whose_own_lease_lapsed_is_stale_whatever_became_of_the_job(db: Session, max_attempts: int) -> None:
    """It must not be told that its settlement was taken already: it never was."""
    held = started(db, max_attempts=max_attempts, lease="1 second")
    shift_clock(db, "2 seconds")
    assert value(db, "rescue") == 1
    assert state_of(db, held.id) == ("dead" if max_attempts == 1 else "ready")
    assert in_set(db, "complete", [held]) == [{"id": held.id, "refused": "stale"}]


@pytest.mark.parametrize("max_attempts", [1, 5])
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_claim_whose_worker_lapsed_is_stale_whatever_became_of_the_job(
    db: Session, max_attempts: int, cancelled: bool
) -> None:
    worker = register(db, lease="10 seconds")
    enqueue(db, max_attempts=max_attempts)
    [held], _ = worker_claim(db, worker)
    if cancelled:
        call(db, "cancel", id=held.id)
    shift_clock(db, "11 seconds")
    assert value(db, "rescue") == 1
    assert in_set(db, "complete", [held]) == [{"id": held.id, "refused": "stale"}]


def test_the_same_worker_under_an_older_epoch_is_refused(db: Session) -> None:
    worker = uuid4()
    old = started(db, worker=worker, lease="1 second")
    shift_clock(db, "2 seconds")
    new = claim_one(db, worker)
    assert new.id == old.id
    assert new.epoch == old.epoch + 1
    for verb in SINGLE:
        assert in_set(db, verb, [old]) == [{"id": old.id, "refused": "stale"}]
    complete(db, new)


def test_a_stale_claim_cannot_act_through_the_current_one_in_the_same_set(db: Session) -> None:
    worker = uuid4()
    old = started(db, worker=worker, lease="1 second")
    shift_clock(db, "2 seconds")
    new = claim_one(db, worker)
    settle(
        db,
        worker,
        [(old.id, old.epoch, "cancelled", None), (new.id, new.epoch, "failed", "1 minute")],
    )
    assert state_of(db, new.id) == "scheduled"
    assert job(db, new.id)["last_error_code"] == "boom"


@pytest.mark.parametrize("stale_first", [True, False])
def test_a_stale_claim_does_not_stand_in_the_way_of_the_current_one_in_the_same_set(
    db: Session, stale_first: bool
) -> None:
    worker = uuid4()
    old = started(db, worker=worker, lease="1 second")
    shift_clock(db, "2 seconds")
    new = claim_one(db, worker)
    claims = [old, new] if stale_first else [new, old]
    query(
        db,
        "select * from wakeful.complete_1(%s, %s, %s::bigint[], %s::text[])",
        *(worker, [one.id for one in claims], [one.epoch for one in claims]),
        ['"old"' if one is old else '"new"' for one in claims],
    )
    assert (state_of(db, new.id), job(db, new.id)["result"]) == ("completed", "new")


def test_a_stale_claim_cannot_set_the_lease_of_the_current_one_in_the_same_set(db: Session) -> None:
    worker = uuid4()
    old = started(db, worker=worker, lease="1 second")
    shift_clock(db, "2 seconds")
    new = claim_one(db, worker)
    query(
        db,
        "select * from wakeful.extend_1(%s, %s, %s::bigint[], '{1 day, 1 hour}'::interval[])",
        *(worker, [old.id, new.id], [old.epoch, new.epoch]),
    )
    left = scalar(db, "select lease_expires_at - wakeful.now() from wakeful.job where id = %s", new.id)
    assert 3500 < left.total_seconds() <= 3600


def test_a_refused_completion_fails_the_transaction_it_is_part_of(db: Session) -> None:
    held = started(db, lease="1 second")
    shift_clock(db, "2 seconds")
    value(db, "rescue")
    with refusal(STALE), db.transaction():
        enqueue(db, "effect")
        complete(db, held)
    assert stats(db, "effect") == {}


def test_epochs_only_grow(db: Session) -> None:
    worker, id = uuid4(), enqueue(db, max_attempts=10)
    seen = []
    for verb in ("release", "fail", "snooze", "release", "fail"):
        held = claim_one(db, worker)
        seen.append(held.epoch)
        SINGLE[verb](db, held)
        if state_of(db, id) == "scheduled":
            call(db, "retry_now", id=id)
    assert seen == [1, 2, 3, 4, 5]


def test_a_note_passes_the_fence_too(db: Session) -> None:
    held = started(db)

    def note(claim: Held) -> bool:
        answer = value(db, "note_1", **claim.fence, progress={"done": 1})
        assert isinstance(answer, bool)
        return answer

    assert [note(wrong) for wrong in forged(held)] == [False] * 4
    assert job(db, held.id)["progress"] is None
    assert note(held)
    assert job(db, held.id)["progress"] == {"done": 1}


def test_whether_a_claim_completed_its_job_can_be_asked_afterwards(db: Session) -> None:
    held = started(db)
    assert not value(db, "completed_by_1", **held.fence)
    complete(db, held)
    assert value(db, "completed_by_1", **held.fence)
    assert not any(value(db, "completed_by_1", **wrong.fence) for wrong in forged(held))
    id: UUID = enqueue(db)
    cancelled = claim_one(db)
    call(db, "cancel", id=id)
    fail(db, cancelled)
    assert not value(db, "completed_by_1", **cancelled.fence)
