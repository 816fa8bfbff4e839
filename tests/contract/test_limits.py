"""Limits: how many run, and how many start, of a task, a queue, or a key."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.sessions import INVALID, Ear, Session, call, query, refusal, scalar, session, shift_clock, value
from tests.verbs import (
    Held,
    claim,
    claim_one,
    complete,
    enqueue,
    enqueue_many,
    fail,
    fall_asleep,
    register,
    started,
    worker_claim,
)
from wakeful.testing import Database


def limit(db: Session, task: str = "t", **policy: object) -> None:
    value(db, "set_task_policy", task=task, **policy)


def take(db: Session, want: int = 100, task: str = "t") -> list[Held]:
    return claim(db, want=want, tasks=[task])


def by_tenant(held: list[Held]) -> Counter[str]:
    return Counter(one.row["tenant"] for one in held)


def many(db: Session, number: int, task: str = "t", **options: object) -> None:
    enqueue_many(db, [{"task": task, **options} for _ in range(number)])


def parked(db: Session) -> int:
    return int(scalar(db, "select count(*) from wakeful.job where state = 1 and limit_key is not null"))


def test_no_more_of_a_task_run_than_its_limit(db: Session) -> None:
    limit(db, concurrency=3)
    many(db, 10)
    first = take(db)
    assert len(first) == 3
    assert take(db) == []
    assert scalar(db, "select sum(attempt) from wakeful.job") == 3
    complete(db, first[0])
    assert len(take(db)) == 1
    assert parked(db) == 0


@pytest.mark.parametrize("end", ["fail", "snooze", "release", "cancel", "lapse"])
def test_a_slot_comes_back_however_its_job_ends(own: Session, end: str) -> None:
    limit(own, concurrency=1)
    many(own, 2)
    held = claim_one(own, tasks=["t"], lease="1 minute")
    match end:
        case "fail":
            fail(own, held, retry_in="1 hour")
        case "snooze":
            call(own, "snooze", **held.fence, delay="1 hour")
        case "release":
            call(own, "release", **held.fence)
        case "cancel":
            value(own, "cancel", id=held.id)
            fail(own, held)
        case _:
            shift_clock(own, "2 minutes")
    assert len(take(own)) == 1


def test_each_key_has_slots_of_its_own(db: Session) -> None:
    limit(db, concurrency=2, key="tenant")
    for tenant in ("a", "b", "a", "a", "b", "a", "c"):
        enqueue(db, tenant=tenant)
    assert by_tenant(take(db)) == {"a": 2, "b": 2, "c": 1}
    assert take(db) == []


def test_a_key_may_be_a_value_in_the_payload(db: Session) -> None:
    limit(db, concurrency=1, key="account.id")
    for account in (7, 7, 8, None):
        enqueue(db, payload={"account": {"id": account}} if account else {})
    assert len(take(db)) == 3


def test_jobs_of_full_keys_are_parked_once_and_do_not_hold_up_others(db: Session) -> None:
    limit(db, concurrency=1, key="tenant")
    many(db, 500, tenant="a")
    last = enqueue(db, tenant="b")
    first = take(db, 4)
    while not any(held.id == last for held in first):
        more = take(db, 4)
        first += more
    assert by_tenant(first) == {"a": 1, "b": 1}
    assert parked(db) == 499


def test_a_freed_slot_of_a_key_is_taken_by_the_next_in_line(db: Session) -> None:
    limit(db, concurrency=1, key="tenant")
    low = enqueue(db, tenant="a", priority=-1)
    ids = [enqueue(db, tenant="a") for _ in range(3)]
    order = []
    for _ in range(4):
        held = claim_one(db, tasks=["t"])
        assert take(db) == []
        order.append(held.id)
        complete(db, held)
    assert order == [*ids, low]
    assert scalar(db, "select count(*) from wakeful.freed_slot") <= 1


def test_a_slot_that_nobody_could_take_yet_is_not_forgotten(db: Session) -> None:
    limit(db, concurrency=3, key="tenant")
    many(db, 9, tenant="a")
    held = take(db)
    assert len(held) == 3
    assert parked(db) == 6
    for one in held:
        complete(db, one)
    # Three slots are free: whoever has room for one leaves the others to the next.
    assert [len(take(db, 1)) for _ in range(4)] == [1, 1, 1, 0]


def test_the_slot_of_one_key_is_not_forgotten_when_a_newcomer_of_another_is_parked(db: Session) -> None:
    limit(db, concurrency=1, key="tenant")
    for tenant in "ab":
        many(db, 2, tenant=tenant)
    for one in take(db):
        complete(db, one)
    enqueue(db, tenant="a")
    # Both keys have room. One slot is free: a's parked job takes it, the newcomer is parked behind it.
    [first], _ = worker_claim(db, register(db), want=9, free=[1])
    assert first.row["tenant"] == "a"
    assert by_tenant(take(db)) == {"b": 1}


def test_a_parked_job_can_be_cancelled_and_a_replaced_one_is_back_in_line(db: Session) -> None:
    limit(db, concurrency=1, key="tenant")
    blocker = started(db, tenant="a")
    gone, moved = enqueue(db, tenant="a"), enqueue(db, tenant="a", dedup_key="k")
    assert take(db) == []
    assert parked(db) == 2
    value(db, "cancel", id=gone)
    enqueue(db, dedup_key="k", dedup="replace", payload={"n": 2})
    assert parked(db) == 0
    complete(db, blocker)
    assert claim_one(db, tasks=["t"]).id == moved


def test_a_limit_that_is_lifted_lets_the_parked_ones_go(db: Session) -> None:
    limit(db, concurrency=1, key="tenant")
    many(db, 5, tenant="a")
    assert len(take(db)) == 1
    assert parked(db) == 4
    limit(db)
    assert len(take(db)) == 4


def test_a_rate_lets_a_burst_through_and_then_one_at_a_time(own: Session) -> None:
    limit(own, rate=10, per="1 hour", burst=3)
    many(own, 10)
    assert len(take(own)) == 3
    assert take(own) == []
    shift_clock(own, "7 minutes")
    assert len(take(own)) == 1
    shift_clock(own, "10 hours")
    assert len(take(own)) == 3


def test_a_rate_on_a_key_is_each_keys_own(own: Session) -> None:
    limit(own, rate=1, per="1 minute", key="tenant")
    for tenant in "aabbb":
        enqueue(own, tenant=tenant)
    assert by_tenant(take(own)) == {"a": 1, "b": 1}
    assert take(own) == []
    assert parked(own) == 3
    shift_clock(own, "61 seconds")
    assert by_tenant(take(own)) == {"a": 1, "b": 1}
    shift_clock(own, "61 seconds")
    assert by_tenant(take(own)) == {"b": 1}


def test_a_short_claim_tells_when_the_rate_allows_the_next(db: Session) -> None:
    limit(db, rate=1, per="1 minute")
    many(db, 2)
    held, report = worker_claim(db, register(db))
    assert len(held) == 1
    assert 55 < report["due_in"] < 65


def test_a_short_claim_tells_when_a_parked_one_may_start(db: Session) -> None:
    limit(db, rate=1, per="1 minute", key="tenant")
    many(db, 2, tenant="a")
    held, report = worker_claim(db, register(db))
    assert len(held) == 1
    assert 55 < report["due_in"] < 65


def test_a_queue_has_a_limit_over_all_its_tasks(db: Session) -> None:
    value(db, "set_queue_policy", queue="q", concurrency=3)
    many(db, 5, "t", queue="q")
    many(db, 5, "u", queue="q")
    held = claim(db, want=10, queues=["q"])
    assert len(held) == 3
    other = enqueue(db, "t")
    assert [one.id for one in claim(db, want=10)] == [other]
    complete(db, held[0])
    assert len(claim(db, want=10, queues=["q"])) == 1


def test_a_job_is_behind_all_its_limits(db: Session) -> None:
    value(db, "set_queue_policy", queue="q", concurrency=3)
    limit(db, "t", concurrency=2)
    limit(db, "u", concurrency=2, key="tenant")
    many(db, 5, "t", queue="q")
    many(db, 5, "u", queue="q", tenant="a")
    held = claim(db, want=10, queues=["q"])
    assert Counter(one.row["task"] for one in held) == {"t": 2, "u": 1}
    complete(db, next(one for one in held if one.row["task"] == "t"))
    [next_one] = claim(db, want=10, queues=["q"])
    complete(db, next_one)


def test_limited_jobs_are_not_held_ready_behind_busy_slots(db: Session) -> None:
    limit(db, rate=1000, burst=1000)
    many(db, 20)
    held, report = worker_claim(db, register(db), want=15, free=[2])
    assert len(held) == 2
    assert report["held_back"]


def test_order_in_line_holds_between_limited_and_other_tasks(db: Session) -> None:
    limit(db, "u", concurrency=100)
    ids = [enqueue(db, task, priority=priority) for task, priority in (("t", 0), ("u", 5), ("t", 3), ("u", 0))]
    held = claim(db, want=3)
    assert {one.id for one in held} == {ids[1], ids[2], ids[0]}


def test_a_freed_slot_pokes_who_waits_for_it(own: Session, database: Database) -> None:
    limit(own, concurrency=1, key="tenant")
    many(own, 2, tenant="a")
    held = claim_one(own, tasks=["t"])
    assert take(own) == []
    sleeper = fall_asleep(own)
    with session(database.dsn) as listener:
        ear = Ear(listener, sleeper)
        complete(own, held)
        assert {"q": "default", "in": 0} in ear.heard(own)


def test_in_an_old_snapshot_nothing_limited_is_claimed(db: Session) -> None:
    limit(db, concurrency=1)
    enqueue(db)
    db.execute("begin isolation level repeatable read")
    assert take(db) == []
    db.execute("commit")
    assert len(take(db)) == 1


@pytest.mark.parametrize(
    "policy",
    [
        {"concurrency": 0},
        {"concurrency": -3},
        {"rate": 0},
        {"rate": 5, "per": "0 seconds"},
        {"rate": 5, "burst": 0},
        {"burst": 3},
        {"key": "tenant"},
    ],
)
def test_a_limit_that_cannot_be_is_refused(db: Session, policy: dict[str, Any]) -> None:
    with refusal(INVALID):
        limit(db, **policy)


def test_a_policy_is_shown_and_goes_when_nothing_is_said(db: Session) -> None:
    limit(db, concurrency=2, rate=60, per="1 minute", burst=5, key="account.id", breaker="smtp")
    [told] = query(db, "select * from wakeful.policies")
    assert (told["kind"], told["name"], told["concurrency"], told["burst"]) == ("task", "t", 2, 5)
    assert (told["rate_per_second"], told["key"], told["breaker"]) == (1.0, "account.id", "smtp")
    limit(db)
    assert query(db, "select * from wakeful.policies") == []


def test_a_full_queue_takes_no_more(db: Session) -> None:
    value(db, "set_queue_policy", queue="q", max_pending=3)
    many(db, 2, queue="q")
    enqueue(db, queue="q", delay="1 hour")
    with refusal("WF008", "queue q has 3 jobs waiting and may have 3"):
        enqueue(db, queue="q")
    with refusal("WF008"):
        many(db, 2, queue="q")
    enqueue(db)
    claim_one(db, queues=["q"])
    enqueue(db, queue="q")


def test_who_is_parked_behind_a_limit_counts_towards_a_full_queue(db: Session) -> None:
    value(db, "set_queue_policy", queue="q", max_pending=3)
    limit(db, concurrency=1, key="tenant")
    enqueue(db, queue="q", tenant="a")
    claim_one(db, queues=["q"])
    many(db, 3, queue="q", tenant="a")
    assert claim(db, want=5, queues=["q"]) == []
    assert parked(db) == 3
    with refusal("WF008", "queue q has 3 jobs waiting and may have 3"):
        enqueue(db, queue="q", tenant="b")


def test_a_field_of_the_payload_may_be_called_tenant(db: Session) -> None:
    limit(db, concurrency=1, key="payload.tenant")
    for named in ("a", "a", "b"):
        enqueue(db, payload={"tenant": named}, tenant="the same")
    assert len(take(db)) == 2
    assert scalar(db, "select key from wakeful.policies") == "payload.tenant"


def test_a_job_that_is_parked_in_a_paused_queue_hides_no_other_of_its_key(db: Session) -> None:
    limit(db, concurrency=1, key="tenant")
    running = started(db, tenant="a", queue="open")
    enqueue(db, tenant="a", queue="paused")
    waiting = enqueue(db, tenant="a", queue="open")
    assert claim(db, queues=["paused", "open"], tasks=["t"]) == []
    assert parked(db) == 2
    value(db, "pause_queue", name="paused")
    complete(db, running)
    assert claim_one(db, queues=["paused", "open"], tasks=["t"]).id == waiting


def test_a_parked_job_that_has_expired_does_not_start(own: Session) -> None:
    limit(own, concurrency=1, key="tenant")
    running = started(own, tenant="a")
    value(
        own,
        "enqueue",
        task="t",
        payload={},
        tenant="a",
        expires_at=scalar(own, "select wakeful.now() + interval '1 s'"),
    )
    worker = register(own)
    assert worker_claim(own, worker)[0] == []
    complete(own, running)
    shift_clock(own, "2 seconds")
    assert worker_claim(own, worker, tend=False)[0] == []


@pytest.mark.parametrize("rate", [100, 100_000])
@pytest.mark.parametrize("of", ["task", "queue"])
def test_what_an_old_rate_would_have_had_to_wait_for_does_not_wait_for_the_new_one(
    db: Session, of: str, rate: int
) -> None:
    function, named = f"set_{of}_policy", {of: "t" if of == "task" else "default"}
    value(db, function, **named, rate=1, per="1 day")
    many(db, 2)
    assert len(take(db)) == 1
    value(db, function, **named, rate=rate, burst=1)
    shift_clock(db, "1 second")
    assert len(take(db)) == 1


def test_a_rate_that_went_and_came_back_knows_nothing_of_before(db: Session) -> None:
    limit(db, rate=1, per="1 day")
    many(db, 2)
    assert len(take(db)) == 1
    limit(db)
    limit(db, rate=1, per="1 day")
    assert len(take(db)) == 1


def test_a_rate_that_could_start_billions_in_the_time_of_a_wait_can_be_asked(db: Session) -> None:
    tokens = "select wakeful.tokens(wakeful.now() + interval '10 years', '1 microsecond', 1, wakeful.now()) < 0"
    assert scalar(db, tokens)
