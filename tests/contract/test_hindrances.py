"""Breakers and limits as an operator is told of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from tests.sessions import Session, call, value
from tests.verbs import enqueue, register, worker_claim
from wakeful.observe.reasons import answer
from wakeful.observe.verdict import HealthLimits, judge


@pytest.fixture
def steered(own: Session) -> Session:
    """A database in which breakers and limits can be declared."""
    own.execute(
        "create table if not exists wakeful.breaker (name text, state text, opened_at timestamptz,"
        " half_opened_at timestamptz, probe_at timestamptz, updated_at timestamptz)"
    )
    own.execute(
        "create table if not exists wakeful.task_policy (task text, breaker text, concurrency integer,"
        " keyed_by text, key_path text[])"
    )
    own.execute("create table if not exists wakeful.queue_policy (queue text, concurrency integer)")
    return own


def told(db: Session, id: UUID) -> str:
    facts: dict[str, Any] = value(db, "explain", id=id)
    return " ".join(answer(facts))


def test_where_none_is_declared_nothing_hinders(db: Session) -> None:
    register(db)
    id = enqueue(db)
    facts = value(db, "explain", id=id)
    assert (facts["breakers"], facts["limits"]) == ([], [])
    assert value(db, "health")["breakers_open"] == []


def test_an_open_breaker_is_told_of_with_the_moment_of_its_next_try(steered: Session) -> None:
    register(steered)
    id = enqueue(steered)
    steered.execute(
        "insert into wakeful.breaker (name, state, opened_at, probe_at, updated_at)"
        " values ('mail', 'open', now(), now() + interval '1 minute', now())"
    )
    steered.execute("insert into wakeful.task_policy (task, breaker) values ('t', 'mail')")
    assert "Breaker mail is open until 2" in told(steered, id)
    facts = value(steered, "health")
    assert [one["name"] for one in facts["breakers_open"]] == ["mail"]
    [finding] = [one for one in judge(facts, HealthLimits()) if one.name == "breakers"]
    assert finding.told.startswith("Breaker mail is open")
    rules = Jsonb({"breaker": 1})
    [alert] = call(steered, "watch_1", rules=rules, every="0")
    assert (alert["rule"], alert["subject"], alert["fired"]) == ("breaker", "mail", True)
    steered.execute("update wakeful.breaker set state = 'closed', probe_at = null")
    assert "Breaker" not in told(steered, id)
    [alert] = call(steered, "watch_1", rules=rules, every="0")
    assert alert["fired"] is False


def test_a_limit_that_is_full_names_those_who_hold_it(steered: Session) -> None:
    worker = register(steered)
    steered.execute("insert into wakeful.task_policy (task, concurrency) values ('t', 1)")
    first, second = enqueue(steered), enqueue(steered)
    worker_claim(steered, worker, want=1)
    assert f"Its limit task t is full (1 of 1, held by {first})" in told(steered, second)
    steered.execute("update wakeful.task_policy set concurrency = 2")
    assert "limit" not in told(steered, second)
