"""Circuit breakers: what a claim lets through, and what outcomes make of that."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.sessions import INVALID, MISSING, Ear, Session, call, query, refusal, scalar, shift_clock, take_out, value
from tests.verbs import Held, claim, complete, enqueue, fail, register, settle, started, worker_claim


@pytest.fixture(autouse=True)
def behind_smtp(db: Session) -> None:
    value(db, "set_task_policy", task="t", breaker="smtp")
    # Its service has been heard of: a fresh one is told of below.
    db.execute("update wakeful.breaker set tried_at = wakeful.now()")


def breaker(db: Session) -> dict[str, Any]:
    [row] = query(db, "select * from wakeful.breakers")
    return row


def take(db: Session, want: int = 100) -> list[Held]:
    return claim(db, want=want, tasks=["t"])


def fail_some(db: Session, number: int) -> None:
    for held in take(db, number):
        fail(db, held, retry_in="0 seconds")


def open_it(db: Session) -> None:
    for _ in range(20):
        enqueue(db)
    fail_some(db, 5)
    assert breaker(db)["state"] == "open"


def test_five_failures_within_the_window_open_it(db: Session) -> None:
    for _ in range(6):
        enqueue(db)
    fail_some(db, 4)
    told = breaker(db)
    assert (told["state"], told["failure_count"], told["threshold"]) == ("closed", 4, 5)
    fail_some(db, 1)
    told = breaker(db)
    assert (told["state"], told["failure_count"]) == ("open", 5)
    assert told["opened_at"] == told["last_failure_at"] == told["updated_at"]
    assert (told["next_probe_at"] - told["opened_at"]).total_seconds() == 60


def test_until_its_first_success_no_more_run_than_failures_would_open_it(own: Session) -> None:
    value(own, "set_task_policy", task="t", breaker="smtp")
    for _ in range(20):
        enqueue(own)
    before = breaker(own)
    held = take(own)
    assert len(held) == 5
    assert take(own) == []
    call(own, "snooze", **held[0].fence, delay="1 hour")
    [fifth] = take(own)
    complete(own, fifth)
    # Trusted from here on; and nothing of it shows.
    assert len(take(own)) == 14
    assert breaker(own) == before


def test_a_first_job_that_takes_its_time_holds_up_the_others_for_a_window_only(own: Session) -> None:
    value(own, "set_task_policy", task="t", breaker="smtp")
    for _ in range(20):
        enqueue(own)
    held = claim(own, want=9, tasks=["t"], lease="1 hour")
    assert len(held) == 5
    shift_clock(own, "61 seconds")
    assert len(take(own)) == 15


def test_failures_that_are_older_than_the_window_do_not_count(own: Session) -> None:
    value(own, "set_task_policy", task="t", breaker="smtp")
    for _ in range(6):
        enqueue(own)
    fail_some(own, 4)
    shift_clock(own, "61 seconds")
    fail_some(own, 1)
    assert (breaker(own)["state"], breaker(own)["failure_count"]) == ("closed", 1)


def test_while_it_is_open_jobs_wait_unclaimed_and_uncharged(db: Session) -> None:
    open_it(db)
    assert take(db) == []
    assert scalar(db, "select count(*) from wakeful.jobs where state = 'ready'") == 20
    assert scalar(db, "select sum(attempt) from wakeful.jobs") == 5


def test_other_tasks_go_on(db: Session) -> None:
    open_it(db)
    other = enqueue(db, "u")
    assert [held.id for held in claim(db, want=9)] == [other]


def test_when_the_probe_time_comes_one_is_let_through(own: Session) -> None:
    value(own, "set_task_policy", task="t", breaker="smtp")
    open_it(own)
    shift_clock(own, "61 seconds")
    assert len(take(own)) == 1
    assert take(own) == []
    told = breaker(own)
    assert told["state"] == "half_open"
    assert told["half_opened_at"] is not None
    assert told["next_probe_at"] is None


def test_as_many_probes_as_it_has_are_let_through_and_all_must_succeed(own: Session) -> None:
    value(own, "set_task_policy", task="t", breaker="smtp")
    value(own, "set_breaker", name="smtp", probes=3)
    open_it(own)
    shift_clock(own, "61 seconds")
    first, *others = take(own)
    assert len(others) == 2
    complete(own, first)
    assert (breaker(own)["state"], breaker(own)["success_count"]) == ("half_open", 1)
    assert take(own) == []
    for held in others:
        complete(own, held)
    assert breaker(own)["state"] == "closed"


def test_a_probe_that_succeeds_closes_it_and_has_everyone_look(own: Session, database: Any) -> None:
    from tests.sessions import session

    value(own, "set_task_policy", task="t", breaker="smtp")
    open_it(own)
    shift_clock(own, "61 seconds")
    [probe] = take(own)
    with session(database.dsn) as listener:
        ear = Ear(listener)
        complete(own, probe)
        assert {"look": True} in ear.heard(own)
    told = breaker(own)
    assert (told["state"], told["failure_count"], told["success_count"]) == ("closed", 0, 1)
    assert len(take(own)) == 19


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_the_cap(own: Session) -> None:
    value(own, "set_task_policy", task="t", breaker="smtp")
    value(own, "set_breaker", name="smtp", open_for="60 seconds", open_cap="100 seconds")
    open_it(own)
    for length in (100, 100):
        shift_clock(own, "101 seconds")
        [probe] = take(own)
        fail(own, probe, retry_in="0 seconds")
        told = breaker(own)
        assert told["state"] == "open"
        assert (told["next_probe_at"] - told["opened_at"]).total_seconds() == length


def test_a_probe_that_is_released_makes_room_for_another(own: Session) -> None:
    value(own, "set_task_policy", task="t", breaker="smtp")
    open_it(own)
    shift_clock(own, "61 seconds")
    [probe] = take(own)
    call(own, "release", **probe.fence)
    assert breaker(own)["state"] == "half_open"
    assert len(take(own)) == 1


def test_a_probe_whose_worker_dies_makes_room_for_another(own: Session) -> None:
    value(own, "set_task_policy", task="t", breaker="smtp")
    open_it(own)
    shift_clock(own, "61 seconds")
    worker = register(own, lease="10 seconds")
    [probe], _ = worker_claim(own, worker)
    shift_clock(own, "11 seconds")
    [again] = take(own)
    assert again.epoch >= probe.epoch


def test_a_success_while_it_is_closed_and_trusted_writes_nothing(db: Session) -> None:
    before = query(db, "select xmin::text, ctid::text from wakeful.breaker")
    complete(db, started(db))
    assert query(db, "select xmin::text, ctid::text from wakeful.breaker") == before


def test_from_a_failure_to_the_next_success_no_more_run_than_failures_are_left(db: Session) -> None:
    for _ in range(20):
        enqueue(db)
    fail_some(db, 2)
    cautious = take(db)
    assert len(cautious) == 3
    assert take(db) == []
    complete(db, cautious[0])
    assert len(take(db)) == 17


def test_what_started_before_it_was_closed_says_nothing_of_it_since(db: Session) -> None:
    for _ in range(20):
        enqueue(db)
    late = take(db, 6)
    value(db, "trip_breaker", name="smtp")
    value(db, "reset_breaker", name="smtp")
    for held in late:
        fail(db, held, retry_in="0 seconds")
    assert (breaker(db)["state"], breaker(db)["failure_count"]) == ("closed", 0)


def test_failures_that_are_not_the_services_fault_do_not_count(db: Session) -> None:
    worker = register(db)
    for _ in range(6):
        enqueue(db)
    held, _ = worker_claim(db, worker)
    query(
        db,
        "select * from wakeful.settle_1(%s, %s::uuid[], %s::bigint[], array_fill('failed'::text, array[6]), null, null,"
        " null, array_fill(interval '0', array[6]), array[true, false, false, false, false, false])",
        *(worker, [one.id for one in held], [one.epoch for one in held]),
    )
    assert breaker(db)["failure_count"] == 1


def test_snoozed_and_released_ones_do_not_count(db: Session) -> None:
    worker = register(db)
    for _ in range(6):
        enqueue(db)
    held, _ = worker_claim(db, worker)
    settle(db, worker, [(one.id, one.epoch, "snoozed", "1 hour") for one in held])
    assert breaker(db)["failure_count"] == 0


def test_a_set_of_failures_is_counted_as_a_whole(db: Session) -> None:
    worker = register(db)
    for _ in range(9):
        enqueue(db)
    held, _ = worker_claim(db, worker)
    settle(db, worker, [(one.id, one.epoch, "failed", "1 hour") for one in held])
    assert (breaker(db)["state"], breaker(db)["failure_count"]) == ("open", 5)


def test_it_is_tripped_and_reset_by_hand_with_an_audit_row(db: Session) -> None:
    enqueue(db)
    value(db, "trip_breaker", name="smtp", length="10 minutes", actor="ann", reason="upgrade")
    told = breaker(db)
    assert (told["next_probe_at"] - told["opened_at"]).total_seconds() == 600
    assert take(db) == []
    value(db, "reset_breaker", name="smtp", actor="ben")
    assert len(take(db)) == 1
    acts = query(db, "select actor, act, details ->> 'breaker' as breaker from wakeful.audits order by id")
    assert acts == [
        {"actor": "ann", "act": "trip", "breaker": "smtp"},
        {"actor": "ben", "act": "reset", "breaker": "smtp"},
    ]


def test_a_breaker_that_nobody_knows_is_not_reset(db: Session) -> None:
    with refusal(MISSING, "no breaker is called smpt"):
        value(db, "reset_breaker", name="smpt")


def test_a_breaker_is_not_tripped_for_no_time(db: Session) -> None:
    with refusal(INVALID, "length"):
        value(db, "trip_breaker", name="smtp", length="0 seconds")


def test_a_short_claim_tells_when_the_probe_is_due(db: Session) -> None:
    open_it(db)
    _, report = worker_claim(db, register(db))
    assert 55 < report["due_in"] <= 60


def test_a_slow_claim_does_not_make_the_probe_late(own: Session) -> None:
    """What it tells counts from its beginning, whenever within the call the breaker was asked."""
    value(own, "set_task_policy", task="t", breaker="smtp")
    value(own, "trip_breaker", name="smtp")
    worker = register(own)
    take_out(own, "next_room", "begin\n", "begin perform pg_sleep(0.4);\n")
    enqueue(own)
    _, report = worker_claim(own, worker)
    assert 55 < report["due_in"] <= 60


def test_a_call_inside_a_handler_is_counted_and_shut_out(db: Session) -> None:
    value(db, "set_breaker", name="api", threshold=2)
    holder = uuid4()
    for _ in range(2):
        [entry] = call(db, "enter_breaker_1", name="api", holder=holder)
        assert entry == {"wait": None, "listens": entry["listens"], "probing": False}
        value(db, "leave_breaker_1", name="api", holder=holder, succeeded=False, started_ago="1 second")
    [entry] = call(db, "enter_breaker_1", name="api", holder=holder)
    assert 55 < entry["wait"] <= 60


def test_of_calls_inside_handlers_one_is_let_through_half_open(own: Session) -> None:
    value(own, "trip_breaker", name="api")
    shift_clock(own, "61 seconds")
    first, second = started(own), started(own, "v")
    [entry] = call(own, "enter_breaker_1", name="api", holder=first.id, epoch=first.epoch)
    assert (entry["wait"], entry["probing"]) == (None, True)
    [other] = call(own, "enter_breaker_1", name="api", holder=second.id, epoch=second.epoch)
    assert other["wait"] > 0
    value(own, "leave_breaker_1", name="api", holder=first.id, succeeded=True, started_ago="1 second", probing=True)
    [again] = call(own, "enter_breaker_1", name="api", holder=second.id, epoch=second.epoch)
    assert again["wait"] is None


def test_a_caller_outside_of_any_job_that_never_comes_back_is_not_waited_for(own: Session) -> None:
    value(own, "trip_breaker", name="api")
    shift_clock(own, "61 seconds")
    [entry] = call(own, "enter_breaker_1", name="api", holder=uuid4())
    assert entry["probing"]
    [other] = call(own, "enter_breaker_1", name="api", holder=uuid4())
    assert other["wait"] > 0
    shift_clock(own, "61 seconds")
    [again] = call(own, "enter_breaker_1", name="api", holder=uuid4())
    assert again["probing"]


def test_who_waits_behind_one_that_lets_few_through_looks_again_soon(db: Session) -> None:
    worker = register(db)
    for _ in range(9):
        enqueue(db)
    held, _ = worker_claim(db, worker, want=4)
    fail(db, held[0], retry_in="1 hour")
    taken, report = worker_claim(db, worker)
    assert len(taken) == 1
    taken, report = worker_claim(db, worker)
    assert taken == []
    assert 0.5 <= report["due_in"] < 60
    # With nothing in line there is nothing to look for.
    db.execute("delete from wakeful.job where state = 1")
    _, report = worker_claim(db, worker)
    assert report["due_in"] is None or report["due_in"] > 60


def test_fewer_probes_than_have_succeeded_are_not_waited_for_for_ever(db: Session) -> None:
    value(db, "set_breaker", name="smtp", probes=3)
    open_it(db)
    shift_clock(db, "61 seconds")
    held = take(db)
    for one in held[:2]:
        complete(db, one)
    assert breaker(db)["state"] == "half_open"
    call(db, "release", **held[2].fence)
    value(db, "set_breaker", name="smtp", probes=2)
    [last] = take(db)
    complete(db, last)
    assert breaker(db)["state"] == "closed"


def test_a_caller_that_is_back_makes_room_for_the_next(db: Session) -> None:
    value(db, "set_breaker", name="smtp", probes=2)
    open_it(db)
    shift_clock(db, "61 seconds")
    for _ in range(2):
        caller = uuid4()
        [entered] = call(db, "enter_breaker_1", name="smtp", holder=caller)
        assert entered["probing"]
        value(db, "leave_breaker_1", name="smtp", holder=caller, succeeded=True, started_ago="1 ms", probing=True)
    assert breaker(db)["state"] == "closed"


@pytest.mark.parametrize("succeeded", [True, False])
def test_a_probe_from_before_it_opened_again_says_nothing(db: Session, succeeded: bool) -> None:
    open_it(db)
    shift_clock(db, "61 seconds")
    late, second, third = uuid4(), uuid4(), uuid4()

    def leave(caller: object, well: bool) -> None:
        value(db, "leave_breaker_1", name="smtp", holder=caller, succeeded=well, started_ago="1 ms", probing=True)

    assert call(db, "enter_breaker_1", name="smtp", holder=late, patience="1 second")[0]["probing"]
    shift_clock(db, "2 seconds")
    assert call(db, "enter_breaker_1", name="smtp", holder=second)[0]["probing"]
    leave(second, False)
    shift_clock(db, "121 seconds")
    assert call(db, "enter_breaker_1", name="smtp", holder=third)[0]["probing"]
    leave(late, succeeded)
    assert breaker(db)["state"] == "half_open"
    leave(third, True)
    assert breaker(db)["state"] == "closed"
