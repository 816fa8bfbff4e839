"""Alerts: looked at by one of the fleet, fired once, cleared once."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.sessions import Session, background, call, query, session, shift_clock, value, wait_until_blocked
from tests.verbs import complete, enqueue, fail, register, started
from wakeful.testing import Database

RULES = {"depth": 2, "age": 60, "failure_rate": 0.5, "dead_letters": 0, "no_worker": 1, "snapshot": 60}


def look(db: Session, rules: dict[str, Any] | None = None, every: str = "0") -> list[tuple[str, str, bool]]:
    found = call(db, "watch_1", rules=Jsonb(RULES if rules is None else rules), every=every)
    return sorted((row["rule"], row["subject"], row["fired"]) for row in found)


def test_what_is_well_alerts_nobody(db: Session) -> None:
    register(db)
    enqueue(db)
    assert look(db) == []


def test_an_alert_fires_once_and_clears_once(db: Session) -> None:
    register(db)
    held = started(db)
    fail(db, held, no_retry=True)
    assert look(db) == [("dead_letters", "", True)]
    assert look(db) == []
    value(db, "acknowledge", id=held.id)
    assert look(db) == [("dead_letters", "", False)]
    assert look(db) == []
    [row] = query(db, "select rule, number, threshold, cleared_at > fired_at as over from wakeful.alerts")
    assert row == {"rule": "dead_letters", "number": 1, "threshold": 0, "over": True}
    fail(db, started(db), no_retry=True)
    assert look(db) == [("dead_letters", "", True)]


def test_each_rule_finds_what_it_is_for(db: Session) -> None:
    for _ in range(3):
        enqueue(db, "many")
    for number in range(20):
        held = started(db, "failing")
        if number < 5:
            complete(db, held)
        else:
            fail(db, held, no_retry=True)
    enqueue(db, "old", queue="q")
    shift_clock(db, "2 minutes")
    found = look(db)
    assert ("depth", "many", True) in found
    assert ("age", "old", True) in found
    assert ("failure_rate", "failing", True) in found
    assert ("dead_letters", "", True) in found
    assert ("no_worker", "q", True) in found
    assert ("no_worker", "default", True) in found


def test_a_snapshot_that_is_held_for_long_alerts(db: Session, other: Session) -> None:
    with other.transaction():
        other.execute("set transaction isolation level repeatable read")
        other.execute("select 1")
        shift_clock(db, "2 minutes")
        assert look(db, {"snapshot": 60}) == [("snapshot", "", True)]
    assert look(db, {"snapshot": 60}) == [("snapshot", "", False)]


def test_few_runs_say_nothing_of_a_rate(db: Session) -> None:
    register(db)
    for _ in range(3):
        fail(db, started(db), no_retry=True)
    assert look(db, {"failure_rate": 0.1}) == []


def test_a_rule_that_is_off_is_not_looked_at(db: Session) -> None:
    enqueue(db)
    fail(db, started(db, "x"), no_retry=True)
    assert look(db, {}) == []


def test_within_the_interval_nobody_looks_again(db: Session, other: Session) -> None:
    enqueue(db)
    assert look(db, every="5 minutes") == [("no_worker", "default", True)]
    register(db)
    assert look(other, every="5 minutes") == []
    shift_clock(db, "6 minutes")
    assert look(other, {"no_worker": 1}, every="5 minutes") == [("no_worker", "default", False)]


@pytest.mark.parametrize("commits", [True, False])
def test_of_two_who_look_at_once_one_is_told(
    db: Session, other: Session, kept_database: Database, commits: bool
) -> None:
    enqueue(db)
    with session(kept_database.dsn) as observer, background() as start:
        with db.transaction(force_rollback=not commits):
            assert look(db, every="5 minutes") == [("no_worker", "default", True)]
            second = start(look, other, None, "5 minutes")
            wait_until_blocked(observer, other, second)
        assert second.result(10) == ([] if commits else [("no_worker", "default", True)])
