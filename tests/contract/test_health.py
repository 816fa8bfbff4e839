"""Health and vitals: facts that an operator asks for, from the heads of the lines only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from tests.sessions import INVALID, Session, call, query, refusal, shift_clock, value
from tests.verbs import claim, complete, enqueue, fail, register, started, worker_claim
from wakeful.testing import Database


def health(db: Session, **limits: object) -> dict[str, Any]:
    found: dict[str, Any] = value(db, "health", **limits)
    return found


def test_an_empty_queue_has_nothing_to_tell_of(db: Session) -> None:
    told = health(db)
    assert (told["workers_alive"], told["jobs_wait"], told["oldest_ready"]) == (0, False, None)
    assert (told["stuck"], told["orphans"], told["paused"], told["dead_unacknowledged"]) == ([], [], [], 0)
    assert told["schema_version"] == 1


def test_the_oldest_ready_job_is_found_behind_younger_ones_of_a_better_rank(db: Session) -> None:
    old = enqueue(db, "a", priority=-5)
    shift_clock(db, "100 seconds")
    enqueue(db, "a", priority=50)
    enqueue(db, "b", queue="other")
    told = health(db)["oldest_ready"]
    assert (told["id"], told["task"], told["queue"]) == (str(old), "a", "default")
    assert 99 < told["seconds"] < 130


def test_what_is_paused_is_told_of_apart_and_ages_no_more(db: Session) -> None:
    enqueue(db, "a")
    call(db, "pause_queue", name="default", actor="ann", reason="deploy")
    told = health(db)
    assert told["oldest_ready"] is None
    assert [(one["kind"], one["name"], one["by"], one["reason"]) for one in told["paused"]] == [
        ("queue", "default", "ann", "deploy")
    ]


def test_tasks_that_no_worker_alive_has_are_orphans(db: Session) -> None:
    enqueue(db, "t")
    enqueue(db, "unknown")
    register(db, tasks=("t",))
    assert [(one["task"], one["queue"]) for one in health(db)["orphans"]] == [("unknown", "default")]
    shift_clock(db, "2 hours")
    told = health(db)
    assert {one["task"] for one in told["orphans"]} == {"t", "unknown"}
    assert (told["workers_alive"], told["workers_lapsed"]) == (0, 1)


def test_a_loop_of_ones_own_that_waits_serves_too(db: Session) -> None:
    call(
        db,
        "claim_any_1",
        worker_id="0190b3a0-0000-7000-8000-000000000001",
        queues=None,
        tasks=None,
        want=1,
        lease="1 minute",
        sleeps_for="1 minute",
    )
    enqueue(db, "t")
    assert health(db)["orphans"] == []


def test_a_job_that_runs_too_long_is_stuck_though_its_lease_is_renewed(db: Session) -> None:
    worker = register(db, lease="1 day")
    enqueue(db)
    worker_claim(db, worker)
    shift_clock(db, "2 hours")
    [stuck] = health(db)["stuck"]
    assert (stuck["task"], stuck["worker"]) == ("t", "w")
    assert health(db, stuck_after="3 hours")["stuck"] == []
    with refusal(INVALID):
        health(db, stuck_after="0")


def test_dead_letters_count_until_someone_has_seen_them(db: Session) -> None:
    held = started(db)
    fail(db, held, no_retry=True)
    assert health(db)["dead_unacknowledged"] == 1
    value(db, "acknowledge", id=held.id)
    assert health(db)["dead_unacknowledged"] == 0


def test_a_worker_tells_of_a_deaf_listener(db: Session) -> None:
    worker = register(db)
    call(db, "tell_1", worker_id=worker, details={"listener": "deaf"})
    assert health(db)["workers_degraded"] == ["w"]
    call(db, "tell_1", worker_id=worker, details={"listener": "hears"})
    assert health(db)["workers_degraded"] == []


def test_vitals_name_who_holds_the_oldest_snapshot(db: Session, other: Session) -> None:
    other.execute("set application_name = 'the culprit'")
    with other.transaction():
        other.execute("set transaction isolation level repeatable read")
        query(other, "select 1")
        holder = value(db, "vitals")["oldest_snapshot"]
    assert holder["pid"] == other.info.backend_pid
    assert (holder["application_name"], holder["state"]) == ("the culprit", "idle in transaction")


def test_who_is_only_connecting_holds_no_snapshot_of_ours(db: Session, kept_database: Database) -> None:
    elsewhere = psycopg.conninfo.make_conninfo(kept_database.dsn, dbname="postgres")

    def connect() -> None:
        for _ in range(30):
            psycopg.connect(elsewhere).close()

    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(connect)
        while not others.done():
            assert value(db, "vitals")["oldest_snapshot"] is None
        others.result()


def test_vitals_tell_of_our_tables_and_the_servers_room(db: Session) -> None:
    complete(db, started(db))
    claim(db)
    told = value(db, "vitals")
    assert {"job", "dead_letter", "worker"} <= told["tables"].keys()
    assert 0 < told["connections"] <= told["max_connections"]
    assert told["notify_queue"] < 0.1
