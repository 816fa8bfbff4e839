"""Seed 001's monitoring queries and metrics, in the names of this schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sessions import Session, query, session, shift_clock, value
from tests.verbs import claim_one, complete, enqueue, fail, register, started, worker_claim
from wakeful.testing import Database


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


def test_queue_health_by_type_and_status(db: Session) -> None:
    enqueue(db, "email")
    fail(db, started(db, "report"), no_retry=True)
    rows = query(db, "select * from wakeful.queue_health order by task, state")
    assert [(row["task"], row["state"], row["count"]) for row in rows] == [("email", "ready", 1), ("report", "dead", 1)]
    assert {"oldest", "max_attempts", "avg_age_seconds"} <= rows[0].keys()


def test_stuck_jobs_are_found(db: Session) -> None:
    worker = register(db, lease="1 day")
    enqueue(db)
    worker_claim(db, worker)
    shift_clock(db, "2 hours")
    stuck = query(
        db,
        "select id, task, state, attempt, created_at from wakeful.jobs"
        " where state = 'running' and started_at < wakeful.now() - interval '1 hour'",
    )
    assert len(stuck) == len(value(db, "health")["stuck"]) == 1


def test_dead_letters_are_reviewed_and_acknowledged(db: Session) -> None:
    held = started(db)
    fail(db, held, no_retry=True)
    question = "select id from wakeful.dead_letters where not acknowledged order by died_at desc"
    assert [row["id"] for row in query(db, question)] == [held.id]
    value(db, "acknowledge", id=held.id, actor="admin@example.org")
    assert query(db, question) == []


def test_every_run_leaves_a_metric(db: Session) -> None:
    fail(db, started(db, "email"), retry_in="0")
    complete(db, claim_one(db))
    rows = query(
        db,
        "select job_type, status, duration_ms, queue_time_ms, recorded_at from wakeful.job_metrics"
        " where job_type = 'email' and recorded_at > wakeful.now() - interval '1 hour' order by recorded_at",
    )
    assert [(row["job_type"], row["status"]) for row in rows] == [("email", "failed"), ("email", "completed")]
    assert all(row["duration_ms"] is not None for row in rows)
