"""The tables refuse impossible rows by themselves, whoever writes them."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from tests.sessions import Session, query
from tests.verbs import enqueue, fail, started

RUNNING = "state = 2, worker_id = gen_random_uuid(), started_at = now()"
CHECKED: dict[str, list[str]] = {
    "job_state_is_live": ["state = 3", "state = -1", "state = 4", "state = 5"],
    "job_only_a_running_one_is_held": [
        "state = 2, started_at = now()",
        "state = 2, worker_id = gen_random_uuid()",
        "worker_id = gen_random_uuid()",
        "lease_expires_at = now()",
        "state = 0, ready_at = null, worker_id = gen_random_uuid()",
        "state = 0, ready_at = null, lease_expires_at = now()",
    ],
    "job_ready_means_due": [
        "ready_at = null",
        "state = 0",
        f"ready_at = null, {RUNNING}",
        "state = 0, ready_at = null, limit_key = 'k'",
    ],
    "job_priority_is_from_minus_100_to_100": ["rank = 101", "rank = -101"],
    "job_attempts_are_counted": [
        "attempt = -1",
        "attempt = 1, epoch = 0",
        "epoch = -1",
        "max_attempts = 0",
        "max_attempts = 10001",
    ],
    "queue_name_has_1_to_100_bytes": ["queue = ''", "queue = repeat('q', 101)"],
    "task_name_has_1_to_200_bytes": ["task = ''", "task = repeat('t', 201)"],
    "label_has_1_to_200_bytes": ["tenant = ''", "created_by = repeat('c', 201)"],
    "queue_name_has_no_control_characters": [r"queue = E'a\nb'", r"queue = E'\x01'"],
    "task_name_has_no_control_characters": [r"task = E'a\tb'", r"task = E'\x1f'"],
    "label_has_no_control_characters": [r"tenant = E'a\x7f'", r"created_by = E'\r'"],
    "dedup_key_has_1_to_2000_bytes": ["dedup_key = ''", "dedup_key = repeat('k', 2001)"],
    "payload_and_metadata_are_json_objects": ["payload = '[]'", "payload = 'null'", "metadata = '1'"],
}
REQUIRED = (
    *("id", "queue", "task", "state", "rank", "attempt", "max_attempts", "epoch", "pokes", "run_at"),
    *("created_at", "updated_at", "correlation_id", "payload"),
)
CASES = [(constraint, change) for constraint, changes in CHECKED.items() for change in changes]


@pytest.mark.parametrize(("constraint", "change"), CASES)
def test_an_impossible_job_is_refused(db: Session, constraint: str, change: str) -> None:
    enqueue(db)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        db.execute(f"update wakeful.job set {change}".encode())
    assert caught.value.diag.constraint_name == constraint


def test_every_check_of_the_job_is_tried_here(db: Session) -> None:
    checks = query(
        db,
        "select conname from pg_constraint where contype = 'c' and (conrelid = 'wakeful.job'::regclass"
        " or contypid in (select oid from pg_type where typnamespace = 'wakeful'::regnamespace))",
    )
    assert {row["conname"] for row in checks} == set(CHECKED)


@pytest.mark.parametrize("column", REQUIRED)
def test_what_every_job_has_cannot_be_missing(db: Session, column: str) -> None:
    enqueue(db)
    with pytest.raises(psycopg.errors.NotNullViolation):
        db.execute(f"update wakeful.job set {column} = null".encode())


def test_a_possible_row_of_each_state_is_taken(db: Session) -> None:
    for change in ("rank = 100", "state = 0, ready_at = null", "ready_at = now(), state = 1", RUNNING):
        enqueue(db)
        db.execute(f"update wakeful.job set {change}".encode())


def test_an_id_is_live_once_and_dead_once(db: Session) -> None:
    enqueue(db)
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.execute("insert into wakeful.job select * from wakeful.job")
    fail(db, started(db, "dies"), no_retry=True)
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.execute("insert into wakeful.dead_letter select * from wakeful.dead_letter")


@pytest.mark.parametrize(
    "change",
    [
        "acknowledged = true",
        "acknowledged = true, acknowledged_at = now()",
        "acknowledged_by = 'ann'",
        "requeued_as = gen_random_uuid()",
        "requeued_at = now()",
    ],
)
def test_a_dead_letter_is_acknowledged_by_someone_and_linked_whole(db: Session, change: str) -> None:
    fail(db, started(db), no_retry=True)
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute(f"update wakeful.dead_letter set {change}".encode())


def test_a_switch_is_of_a_known_kind(db: Session) -> None:
    insert = (
        "insert into wakeful.control (kind, name, enqueuing, changed_at, changed_by) values (%s, %s, %s, now(), 'x')"
    )
    for kind, enqueuing in (("lane", None), ("queue", True)):
        with pytest.raises(psycopg.errors.CheckViolation):
            db.execute(insert, [kind, str(uuid4()), enqueuing])
