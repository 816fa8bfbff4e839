"""Half-open, over many sessions: exactly as many as it says are let through."""

from __future__ import annotations

from tests.sessions import Session, background, scalar, session, sessions, shift_clock, value
from tests.verbs import claim, complete, enqueue, started
from wakeful.testing import Database


def test_who_cannot_see_a_probe_that_another_has_just_taken_takes_none(database: Database) -> None:
    with sessions(database.dsn, 2) as (first, second):
        value(first, "set_task_policy", task="t", breaker="smtp")
        for _ in range(5):
            enqueue(first)
        value(first, "trip_breaker", name="smtp")
        shift_clock(first, "61 seconds")
        first.execute("begin")
        assert len(claim(first, want=5, tasks=["t"])) == 1
        assert claim(second, want=5, tasks=["t"]) == []
        first.execute("commit")
        assert claim(second, want=5, tasks=["t"]) == []


def test_a_fresh_breaker_lets_no_more_than_its_threshold_start_over_two_sessions(database: Database) -> None:
    with sessions(database.dsn, 2) as (first, second):
        value(first, "set_task_policy", task="t", breaker="smtp")
        for _ in range(20):
            enqueue(first)
        first.execute("begin")
        assert len(claim(first, want=9, tasks=["t"])) == 5
        assert claim(second, want=9, tasks=["t"]) == []
        first.execute("commit")
        assert claim(second, want=9, tasks=["t"]) == []


def test_a_success_while_it_is_closed_and_trusted_waits_for_nobody(database: Database) -> None:
    with sessions(database.dsn, 2) as (first, second):
        value(first, "set_task_policy", task="t", breaker="smtp")
        complete(first, started(first))
        held = started(first)
        # Another service is down, so that somebody listens.
        value(first, "trip_breaker", name="api")
        second.execute("set lock_timeout = '5s'")
        first.execute("begin")
        first.execute("select from wakeful.breaker where name = 'smtp' for update")
        complete(second, held)
        enqueue(second)
        assert len(claim(second, tasks=["t"])) == 1
        first.execute("rollback")


def test_of_many_that_ask_at_once_exactly_the_probes_are_let_through(database: Database) -> None:
    with session(database.dsn) as db:
        value(db, "set_task_policy", task="t", breaker="smtp")
        value(db, "set_breaker", name="smtp", probes=2)
        for _ in range(50):
            enqueue(db)
        value(db, "trip_breaker", name="smtp")
        shift_clock(db, "61 seconds")

        def ask() -> int:
            with session(database.dsn) as mine:
                return sum(len(claim(mine, want=5, queues=["default"], tasks=["t"])) for _ in range(5))

        with background() as start:
            taken = [one.result() for one in [start(ask) for _ in range(8)]]
        assert sum(taken) == 2
        assert running(db) == 2


def running(db: Session) -> int:
    return int(scalar(db, "select count(*) from wakeful.job where state = 2"))
