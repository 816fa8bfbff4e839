"""The views: live, finished and dead as one, and what an operator looks at."""

from __future__ import annotations

import pytest

from tests.sessions import Session, call, query, shift_clock, value
from tests.verbs import claim_one, complete, enqueue, fail, job, register, started, worker_claim

COLUMNS = (
    *("id", "task", "queue", "state", "priority", "payload", "result", "attempt", "max_attempts", "epoch"),
    *("run_at", "created_at", "updated_at", "started_at", "finished_at", "worker_id", "lease_expires_at"),
    *("last_error_code", "last_error_message", "last_error_at", "correlation_id", "parent_id", "created_by"),
    *("tenant", "dedup_key"),
)
PROMISED = {
    "jobs": COLUMNS,
    "dead_letters": (
        *("id", "task", "error_message", "error_details", "died_at", "acknowledged", "acknowledged_by"),
        *("acknowledged_at", "original_job", "payload"),
    ),
    "queue_health": ("task", "state", "count", "oldest", "max_attempts", "avg_age_seconds"),
    "workers": ("id", "name", "queues", "tasks", "slots", "alive", "asleep", "running"),
    "controls": ("kind", "name", "paused", "enqueuing", "changed_by", "reason"),
    "audits": ("at", "actor", "act", "job_id", "details"),
}


@pytest.mark.parametrize("view", PROMISED)
def test_a_view_has_the_columns_that_are_promised(db: Session, view: str) -> None:
    columns = query(
        db,
        "select attname, atttypid::regtype::text as type from pg_attribute"
        " where attrelid = %s::regclass and attnum > 0",
        f"wakeful.{view}",
    )
    assert set(PROMISED[view]) <= {row["attname"] for row in columns}
    # A domain of ours in a view would ask every reader's driver to know it.
    assert not [row for row in columns if row["type"].startswith("wakeful.")]


def test_a_job_is_told_of_once_and_alike_in_every_state(db: Session) -> None:
    asked = {"priority": 3, "tenant": "acme", "created_by": "ann", "dedup_key": "k", "metadata": {"m": 1}}
    id = enqueue(db, "t", {"n": None}, **asked)
    seen = [job(db, id)]
    held = claim_one(db)
    seen.append(job(db, id))
    fail(db, held, code="E", message="why", retry_in="1 hour")
    seen.append(job(db, id))
    value(db, "retry_now", id=id)
    fail(db, claim_one(db), no_retry=True, code="E", message="why")
    seen.append(job(db, id))
    assert [row["state"] for row in seen] == ["ready", "running", "scheduled", "dead"]
    for row in seen:
        assert {name: row[name] for name in asked} == asked
        assert (row["payload"], row["correlation_id"], row["task"]) == ({"n": None}, id, "t")
    assert seen[-1]["attempt"] == 2
    assert (seen[-1]["last_error_code"], seen[-1]["finished_at"]) == ("E", seen[-1]["updated_at"])
    assert [entry["epoch"] for entry in seen[-1]["attempts"]] == [1, 2]


def test_the_last_error_stays_with_a_job_that_completes_in_the_end(db: Session) -> None:
    held = started(db)
    fail(db, held, code="E1", message="first", retry_in="0")
    complete(db, claim_one(db), {"ok": True})
    over = job(db, held.id)
    assert (over["state"], over["result"], over["last_error_code"]) == ("completed", {"ok": True}, "E1")


def test_health_counts_what_is_live_or_dead_and_unseen(db: Session) -> None:
    enqueue(db, "a")
    enqueue(db, "a", delay="1 hour")
    started(db, "b")
    fail(db, started(db, "c"), no_retry=True)
    complete(db, started(db, "d"))
    shift_clock(db, "10 seconds")
    rows = query(db, "select * from wakeful.queue_health order by task, state")
    assert [(row["task"], row["state"], row["count"], row["max_attempts"]) for row in rows] == [
        ("a", "ready", 1, 0),
        ("a", "scheduled", 1, 0),
        ("b", "running", 1, 1),
        ("c", "dead", 1, 1),
    ]
    assert all(9 < row["avg_age_seconds"] < 30 for row in rows)
    [letter] = query(db, "select id from wakeful.dead_letters")
    value(db, "acknowledge", id=letter["id"])
    assert len(query(db, "select from wakeful.queue_health")) == 3


def test_a_worker_is_shown_with_what_it_does(db: Session) -> None:
    busy, idle = register(db), register(db, lease="5 seconds")
    enqueue(db)
    worker_claim(db, busy)
    worker_claim(db, idle, sleeps="all")
    shift_clock(db, "10 seconds")
    rows = {row["id"]: row for row in query(db, "select * from wakeful.workers")}
    assert (rows[busy]["running"], rows[busy]["alive"], rows[busy]["asleep"]) == (1, True, False)
    assert (rows[idle]["running"], rows[idle]["alive"], rows[idle]["asleep"]) == (0, False, True)
    assert call(db, "leave_1", worker_id=idle)
