"""Breakers and limits as an operator is told of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tests.sessions import Session, call, value
from tests.verbs import enqueue, register, worker_claim
from wakeful.observe.reasons import answer
from wakeful.observe.verdict import HealthLimits, judge


def told(db: Session, id: UUID) -> str:
    facts: dict[str, Any] = value(db, "explain", id=id)
    return " ".join(answer(facts))


def test_where_none_is_declared_nothing_hinders(db: Session) -> None:
    register(db)
    facts = value(db, "explain", id=enqueue(db))
    assert (facts["breakers"], facts["limits"]) == ([], [])
    assert value(db, "health")["breakers_open"] == []


def test_an_open_breaker_is_told_of_with_the_moment_of_its_next_try(db: Session) -> None:
    register(db)
    id = enqueue(db)
    db.execute(
        "insert into wakeful.breaker (name, state, opened_at, probe_at, updated_at)"
        " values ('mail', 'open', now(), now() + interval '1 minute', now())"
    )
    db.execute("insert into wakeful.task_policy (task, breaker) values ('t', 'mail')")
    assert "Breaker mail is open until 2" in told(db, id)
    facts = value(db, "health")
    assert [one["name"] for one in facts["breakers_open"]] == ["mail"]
    [finding] = [one for one in judge(facts, HealthLimits()) if one.name == "breakers"]
    assert finding.told.startswith("Breaker mail is open")
    rules = Jsonb({"breaker": 1})
    [alert] = call(db, "watch_1", rules=rules, every="0")
    assert (alert["rule"], alert["subject"], alert["fired"]) == ("breaker", "mail", True)
    db.execute("update wakeful.breaker set state = 'closed', probe_at = null")
    assert "Breaker" not in told(db, id)
    [alert] = call(db, "watch_1", rules=rules, every="0")
    assert alert["fired"] is False


def test_a_limit_that_is_full_names_those_who_hold_it(db: Session) -> None:
    worker = register(db)
    db.execute("insert into wakeful.task_policy (task, concurrency) values ('t', 1)")
    first, second = enqueue(db), enqueue(db)
    assert [held.id for held in worker_claim(db, worker, want=2)[0]] == [first]
    assert f"Its limit task t is full (1 of 1, held by {first})" in told(db, second)
    db.execute("update wakeful.task_policy set concurrency = 2")
    assert "limit" not in told(db, second)


def test_a_limit_by_tenant_is_told_of_to_that_tenant_only(db: Session) -> None:
    worker = register(db)
    db.execute("insert into wakeful.task_policy (task, concurrency, keyed_by) values ('t', 1, 'tenant')")
    first, second, other = (enqueue(db, tenant=tenant) for tenant in ("acme", "acme", "bolt"))
    assert [held.id for held in worker_claim(db, worker, want=1)[0]] == [first]
    assert f"Its limit task t key acme is full (1 of 1, held by {first})" in told(db, second)
    assert "limit" not in told(db, other)


def test_a_rate_says_when_the_next_one_may_start(db: Session) -> None:
    worker = register(db)
    db.execute("insert into wakeful.task_policy (task, every, burst) values ('t', '10 minutes', 1)")
    first, second = enqueue(db), enqueue(db)
    assert [held.id for held in worker_claim(db, worker, want=2)[0]] == [first]
    assert "The rate of task t lets the next one start in" in told(db, second)


def test_a_queue_that_is_full_is_told_of(db: Session) -> None:
    worker = register(db)
    db.execute("insert into wakeful.queue_policy (queue, concurrency) values ('default', 1)")
    first, second = enqueue(db), enqueue(db)
    assert [held.id for held in worker_claim(db, worker, want=2)[0]] == [first]
    assert "Its limit queue default is full (1 of 1" in told(db, second)
