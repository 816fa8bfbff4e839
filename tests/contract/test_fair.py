"""Fair shares between tenants, and priorities that age."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sessions import INVALID, Session, call, query, refusal, scalar, shift_clock, value
from tests.verbs import Held, claim, complete, enqueue, enqueue_many, fail, register, worker_claim


def fair(db: Session, **policy: object) -> None:
    value(db, "set_queue_policy", queue="q", fair=True, **policy)


def many(db: Session, tenant: str | None, number: int, **options: object) -> None:
    enqueue_many(db, [{"task": "t", "queue": "q", "tenant": tenant, **options} for _ in range(number)])


def tenants(db: Session, want: int) -> Counter[str | None]:
    return Counter(held.row["tenant"] for held in claim(db, want=want, queues=["q"]))


def test_one_tenants_backlog_does_not_delay_another(db: Session) -> None:
    fair(db)
    many(db, "a", 1000)
    assert tenants(db, 50) == {"a": 50}
    many(db, "b", 10)
    assert tenants(db, 20) == {"a": 10, "b": 10}


def test_few_are_held_ready_behind_busy_slots_as_they_cannot_give_way(db: Session) -> None:
    fair(db)
    many(db, "a", 100)
    held, report = worker_claim(db, register(db), want=50, queues=["q"], free=[4])
    assert len(held) == 8
    assert report["held_back"]
    # With four held ready, slots have to come free before there are more.
    held, report = worker_claim(db, register(db), want=50, queues=["q"], free=[-4])
    assert held == []
    assert report["held_back"]


@pytest.mark.parametrize("policy", [{}, {"concurrency": 50}])
def test_who_meets_others_at_the_head_takes_the_next_in_line(
    db: Session, other: Session, policy: dict[str, object]
) -> None:
    fair(db, **policy)
    many(db, "a", 100)
    line = [row["id"] for row in query(db, "select id from wakeful.job order by turn")]
    with other.transaction():
        query(other, "select from wakeful.job where id = any (%s) for update", line[:6])
        assert sorted(held.id for held in claim(db, want=4, queues=["q"])) == line[6:10]


def test_shares_go_by_weight(db: Session) -> None:
    fair(db, weights={"gold": 3})
    many(db, "gold", 100)
    many(db, "tin", 100)
    taken = tenants(db, 40)
    assert 28 <= taken["gold"] <= 32


def test_who_comes_back_after_a_rest_is_owed_nothing(db: Session) -> None:
    fair(db)
    many(db, "a", 200)
    tenants(db, 100)
    many(db, "b", 200)
    assert tenants(db, 40) in ({"a": 20, "b": 20}, {"a": 19, "b": 21}, {"a": 21, "b": 19})


def test_jobs_without_a_tenant_share_one_turn(db: Session) -> None:
    fair(db)
    many(db, None, 100)
    many(db, "b", 10)
    assert tenants(db, 20) == {None: 10, "b": 10}


def test_priority_comes_before_fairness(db: Session) -> None:
    fair(db)
    many(db, "b", 5)
    many(db, "a", 20, priority=5)
    assert tenants(db, 20) == {"a": 20}


def test_scheduled_and_retried_jobs_get_their_turn_when_they_are_due(own: Session) -> None:
    fair(own)
    many(own, "b", 5, delay="1 minute")
    [retried] = [held for held in claim_after(own) if held.row["tenant"] == "c"]
    fail(own, retried, retry_in="1 minute")
    many(own, "a", 100)
    shift_clock(own, "2 minutes")
    taken = tenants(own, 20)
    assert (taken["b"], taken["c"]) == (5, 1)


def claim_after(db: Session) -> list[Held]:
    enqueue(db, "t", queue="q", tenant="c")
    return claim(db, want=1, queues=["q"])


def test_a_queue_that_becomes_fair_has_its_line_put_in_order(db: Session) -> None:
    many(db, "a", 100)
    many(db, "b", 10)
    fair(db)
    assert tenants(db, 20) == {"a": 10, "b": 10}


def test_a_queue_that_is_fair_no_more_goes_on(db: Session) -> None:
    fair(db)
    many(db, "a", 10)
    value(db, "set_queue_policy", queue="q")
    many(db, "b", 10)
    assert tenants(db, 20) == {"a": 10, "b": 10}


def test_a_fair_queue_does_not_push_ahead_of_others(db: Session) -> None:
    fair(db)
    plain = enqueue(db, "t", queue="plain")
    many(db, "a", 50)
    assert [held.id for held in claim(db, want=1)] == [plain]


def test_ten_thousand_tenants_take_turns(db: Session) -> None:
    fair(db)
    jobs = [{"task": "t", "queue": "q", "tenant": f"tenant {n % 2000}"} for n in range(6000)]
    enqueue_many(db, jobs)
    taken: Counter[str | None] = Counter()
    for _ in range(20):
        taken += tenants(db, 100)
    assert len(taken) == 2000
    assert scalar(db, "select count(*) from wakeful.job where state = 2") == 2000


@pytest.mark.parametrize("weight", [0, -1, 2000, "much"])
def test_a_weight_that_cannot_be_is_refused(db: Session, weight: object) -> None:
    with refusal(INVALID, "weight"):
        fair(db, weights={"a": weight})


def test_with_ageing_the_lowest_priority_runs_in_the_end(own: Session) -> None:
    value(own, "set_queue_policy", queue="q", ageing="1 minute")
    low = enqueue(own, "t", queue="q", priority=-5)
    shift_clock(own, "4 minutes")
    high = enqueue(own, "t", queue="q")
    assert [held.id for held in claim(own, queues=["q"])] == [high]
    shift_clock(own, "90 seconds")
    enqueue(own, "t", queue="q")
    assert [held.id for held in claim(own, queues=["q"])] == [low]


def test_a_job_that_ran_when_its_queue_became_fair_is_not_overtaken_for_ever(db: Session) -> None:
    worker = register(db)
    enqueue(db, tenant="before")
    [before], _ = worker_claim(db, worker)
    value(db, "set_queue_policy", queue="default", fair=True)
    enqueue_many(db, [{"task": "t", "tenant": "after"} for _ in range(50)])
    call(db, "release", **before.fence)
    overtaken = 0
    while (taken := worker_claim(db, worker, want=1)[0][0]).id != before.id:
        complete(db, taken)
        enqueue(db, tenant="after")
        overtaken += 1
        assert overtaken < 20
