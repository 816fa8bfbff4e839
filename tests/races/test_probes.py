"""Half-open, over many sessions: exactly as many as it says are let through."""

from __future__ import annotations

from tests.sessions import Session, background, scalar, session, shift_clock, value
from tests.verbs import claim, enqueue
from wakeful.testing import Database


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
