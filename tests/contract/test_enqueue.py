"""`wakeful.enqueue`: one job, with every option, exactly once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.sessions import INVALID, Session, call, query, refusal, scalar, shift_clock, value
from tests.verbs import claim_one, complete, enqueue, fail, job, started, state_of, states


def test_a_plain_job_is_ready_at_once_with_the_defaults(db: Session) -> None:
    id = enqueue(db, "mail.send", {"to": "a@b.example"})
    made = job(db, id)
    assert id.version == 7
    assert (made["task"], made["queue"], made["state"]) == ("mail.send", "default", "ready")
    assert made["payload"] == {"to": "a@b.example"}
    assert (made["priority"], made["attempt"], made["max_attempts"], made["epoch"]) == (0, 0, 5, 0)
    assert made["correlation_id"] == id
    assert made["run_at"] == made["ready_at"] == made["created_at"]
    optional = ("parent_id", "tenant", "created_by", "dedup_key", "metadata", "expires_at", "worker_id")
    assert [made[name] for name in optional] == [None] * len(optional)


def test_every_option_is_kept(db: Session) -> None:
    at = datetime(2090, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    asked = {
        "id": uuid4(),
        "queue": "slow",
        "priority": 100,
        "run_at": at,
        "max_attempts": 7,
        "dedup_key": "k",
        "tenant": "acme",
        "correlation_id": uuid4(),
        "parent_id": uuid4(),
        "created_by": "ann",
        "metadata": {"trace": "00-1"},
        "expires_at": at + timedelta(days=1),
    }
    id = enqueue(db, "t", {"n": 1}, dedup="skip", **asked)
    made = job(db, id)
    assert {name: made[name] for name in asked} == asked
    assert made["state"] == "scheduled"
    assert made["ready_at"] is None


def test_a_delay_counts_from_the_databases_clock(db: Session) -> None:
    made = job(db, enqueue(db, delay="90 seconds"))
    assert made["state"] == "scheduled"
    assert made["run_at"] - made["created_at"] == timedelta(seconds=90)


def test_a_delay_of_zero_and_a_time_that_has_passed_are_due_at_once(db: Session) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    assert state_of(db, enqueue(db, delay="0")) == "ready"
    late = job(db, enqueue(db, run_at=past))
    assert (late["state"], late["run_at"]) == ("ready", past)
    assert late["ready_at"] == late["created_at"], "it lines up behind what is there"


def test_a_missing_payload_is_an_empty_object(db: Session) -> None:
    for id in (scalar(db, "select wakeful.enqueue('t')"), scalar(db, "select wakeful.enqueue('t', null)")):
        assert job(db, id)["payload"] == {}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"task": None}, "task"),
        ({"delay": "-1 second"}, "negative"),
        ({"delay": "1 second", "run_at": "2090-01-01"}, "both"),
        ({"run_at": "infinity"}, "infinite"),
        ({"run_at": "-infinity"}, "infinite"),
        ({"run_at": "20000-01-01"}, "years 1 to 9999"),
        ({"run_at": "9999-12-31 23:59:59-12"}, "years 1 to 9999"),
        ({"run_at": "0001-01-01 00:00:00+12"}, "years 1 to 9999"),
        ({"expires_at": "infinity"}, "expires_at infinity is infinite"),
        ({"expires_at": "20000-01-01"}, "years 1 to 9999"),
        ({"expires_at": "-infinity"}, "expires_at"),
        ({"delay": "9000 years"}, "longer than 365000 days"),
        ({"delay": "300000 years"}, "longer than 365000 days"),
        ({"dedup": "skip"}, "dedup_key"),
        ({"dedup": "sometimes", "dedup_key": "k"}, "not known"),
    ],
)
def test_an_impossible_option_is_refused_by_name(db: Session, options: dict[str, Any], word: str) -> None:
    asked = {"task": "t", **options}
    with refusal(INVALID, match=word):
        call(db, "enqueue", **asked)
    with refusal(INVALID, match=word):
        query(db, "select * from wakeful.enqueue_many(%s)", Jsonb([{"task": "fine"}, asked]))
    assert states(db) == {}


def test_the_first_and_the_last_moments_of_the_calendar_are_kept(db: Session) -> None:
    first, last = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
    for at in (first, last):
        made = job(db, enqueue(db, run_at=at, expires_at=at))
        assert (made["run_at"], made["expires_at"]) == (at, at)


@pytest.mark.parametrize(
    ("options", "constraint"),
    [
        ({"task": ""}, "task_name_has_1_to_200_bytes"),
        ({"task": "ä" * 101}, "task_name_has_1_to_200_bytes"),
        ({"queue": ""}, "queue_name_has_1_to_100_bytes"),
        ({"queue": "q" * 101}, "queue_name_has_1_to_100_bytes"),
        ({"tenant": ""}, "label_has_1_to_200_bytes"),
        ({"created_by": "c" * 201}, "label_has_1_to_200_bytes"),
        ({"dedup_key": ""}, "dedup_key_has_1_to_2000_bytes"),
        ({"dedup_key": "k" * 2001}, "dedup_key_has_1_to_2000_bytes"),
        ({"task": "a\tb"}, "task_name_has_no_control_characters"),
        ({"queue": "q\n1"}, "queue_name_has_no_control_characters"),
        ({"tenant": "\x7f"}, "label_has_no_control_characters"),
        ({"created_by": "\x1b[2J"}, "label_has_no_control_characters"),
        ({"priority": 40_000}, "job_priority_is_from_minus_100_to_100"),
        ({"priority": -(2**31)}, "job_priority_is_from_minus_100_to_100"),
        ({"priority": 101}, "job_priority_is_from_minus_100_to_100"),
        ({"priority": -101}, "job_priority_is_from_minus_100_to_100"),
        ({"max_attempts": 0}, "job_attempts_are_counted"),
        ({"max_attempts": 10001}, "job_attempts_are_counted"),
    ],
)
def test_what_no_row_can_hold_names_its_rule(db: Session, options: dict[str, Any], constraint: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        call(db, "enqueue", **{"task": "t", **options})
    assert caught.value.diag.constraint_name == constraint


@pytest.mark.parametrize("payload", ["[]", "1", '"text"', "true", "null"])
def test_payload_and_metadata_are_objects(db: Session, payload: str) -> None:
    for name in ("payload", "metadata"):
        with pytest.raises(psycopg.Error, match=f"{name} is .*, not a JSON object") as caught:
            call(db, "enqueue", task="t", **{name: payload})
        assert (caught.value.sqlstate, caught.value.diag.message_hint) == (INVALID, 'Give an object such as {"id": 7}.')


def test_a_rolled_back_transaction_leaves_nothing(db: Session) -> None:
    with db.transaction(force_rollback=True):
        enqueue(db)
    assert states(db) == {}


def test_a_child_inherits_its_parents_correlation_id_and_may_have_its_own(db: Session) -> None:
    parent = started(db, correlation_id=(given := uuid4()))
    child = enqueue(db, parent_id=parent.id)
    grandchild = enqueue(db, parent_id=child)
    loner = enqueue(db, parent_id=parent.id, correlation_id=(own := uuid4()))
    assert [job(db, id)["correlation_id"] for id in (child, grandchild, loner)] == [given, given, own]


def test_a_child_of_an_unknown_parent_begins_a_correlation_of_its_own(db: Session) -> None:
    orphan = enqueue(db, parent_id=uuid4())
    assert job(db, orphan)["correlation_id"] == orphan


def test_a_resent_id_that_is_live_makes_no_second_job_and_changes_nothing(db: Session) -> None:
    id = enqueue(db, "t", {"n": 1})
    assert enqueue(db, "other", {"n": 2}, id=id, queue="q") == id
    assert (job(db, id)["task"], job(db, id)["payload"]) == ("t", {"n": 1})
    held = claim_one(db)
    assert enqueue(db, "t", {"n": 3}, id=id) == id
    assert job(db, id)["worker_id"] == held.worker_id


def test_a_resent_id_whose_job_completed_makes_no_second_one(db: Session) -> None:
    held = started(db)
    complete(db, held)
    assert enqueue(db, id=held.id) == held.id
    assert states(db) == {held.id: "completed"}


def test_a_resent_id_whose_job_died_makes_no_second_one(db: Session) -> None:
    held = started(db)
    fail(db, held, no_retry=True)
    assert enqueue(db, id=held.id) == held.id
    assert states(db) == {held.id: "dead"}


def test_a_resent_id_whose_job_was_cancelled_makes_no_second_one(db: Session) -> None:
    id = enqueue(db)
    call(db, "cancel", id=id)
    assert enqueue(db, id=id) == id
    assert states(db) == {id: "cancelled"}


@pytest.mark.parametrize(
    "id",
    [
        UUID("00000000-0000-4000-8000-000000000001"),
        UUID("01890000-0000-7000-8000-000000000001"),  # of the year 2023
        UUID("fffffffe-0000-7000-8000-000000000001"),  # by a clock that is ahead of all others
    ],
)
def test_history_is_searched_for_ids_of_every_kind_and_age(db: Session, id: UUID) -> None:
    assert enqueue(db, id=id) == id
    complete(db, claim_one(db))
    assert enqueue(db, id=id) == id
    assert states(db) == {id: "completed"}


def test_a_resent_id_is_found_days_later(db: Session) -> None:
    held = started(db)
    complete(db, held)
    shift_clock(db, "3 days")
    call(db, "make_days")
    assert enqueue(db, id=held.id) == held.id
    assert states(db) == {held.id: "completed"}


def test_ids_grow_with_time_and_never_repeat(db: Session) -> None:
    ids = [row["id"] for row in query(db, "select wakeful.new_id() as id from generate_series(1, 20000)")]
    assert len(set(ids)) == len(ids)
    assert {id.version for id in ids} == {7}
    assert {id.variant for id in ids} == {"specified in RFC 4122"}
    times = [id.int >> 64 for id in ids]
    assert times == sorted(times)
    drift = scalar(db, "select wakeful.id_time(wakeful.new_id()) - clock_timestamp()")
    assert abs(drift) < timedelta(milliseconds=100)


def test_a_switched_off_task_is_not_enqueued_and_says_so(db: Session) -> None:
    notices: list[str] = []
    db.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
    value(db, "switch_task", name="t", enqueuing=False)
    assert value(db, "enqueue", task="t") is None
    assert notices == ["wakeful: no job made for task t (enqueuing of it is off)"]
    assert states(db) == {}
    value(db, "switch_task", name="t", enqueuing=True)
    assert state_of(db, enqueue(db)) == "ready"
