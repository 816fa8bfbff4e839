"""`wakeful health`, `explain` and `doctor` as processes."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.commands import Commands
from tests.sessions import Session
from tests.verbs import enqueue, fail, register, started


def test_a_queue_that_is_well_exits_with_zero(wakeful: Commands, db: Session) -> None:
    register(db)
    enqueue(db)
    told = wakeful.json("health")
    assert (told["status"], told["healthy"]) == ("ok", True)
    assert {one["name"] for one in told["findings"]} >= {"database", "schema", "workers", "oldest_ready", "orphans"}
    assert "No dead letter is unseen." in wakeful.text("health")


def test_jobs_that_nobody_works_on_are_unhealthy(wakeful: Commands, db: Session) -> None:
    enqueue(db)
    told = wakeful.json("health", code=1)
    assert (told["status"], told["healthy"]) == ("failing", False)
    ran = wakeful.run("health")
    assert ran.returncode == 1
    assert "Jobs wait, and no worker is alive." in ran.stdout
    assert "→ Start one: `wakeful worker module:app`." in ran.stdout


def test_a_dead_letter_is_a_warning_and_no_more(wakeful: Commands, db: Session) -> None:
    fail(db, started(db), no_retry=True)
    assert wakeful.json("health")["status"] == "warning"


def test_a_database_that_is_not_there_is_told_in_one_document_or_one_sentence(wakeful: Commands) -> None:
    wakeful.dsn = make_conninfo(wakeful.dsn, dbname="nowhere_at_all")
    told = wakeful.json("health", code=1)
    assert [(one["name"], one["level"]) for one in told["findings"]] == [("database", "failing")]
    assert "no such database" in wakeful.refusal(1, "health")


def test_a_malformed_limit_is_wrong_usage(wakeful: Commands) -> None:
    assert "no duration" in wakeful.refusal(2, "health", "--max-age", "soon")
    assert "no duration" in wakeful.refusal(2, "health", "--stuck-after", "0")


def test_explain_answers_and_tells_the_story(wakeful: Commands, db: Session) -> None:
    id = enqueue(db)
    assert "No worker is alive" in wakeful.text("explain", str(id))
    told = wakeful.json("explain", str(id))
    assert (told["id"], told["state"]) == (str(id), "ready")
    assert [moment["what"] for moment in told["timeline"]] == ["enqueued"]


def test_explain_refuses_what_is_unknown_or_no_id(wakeful: Commands) -> None:
    assert "No job has id" in wakeful.refusal(1, "explain", str(uuid4()))
    assert "See `wakeful explain --help`" in wakeful.refusal(2, "explain", "seven")


def test_the_doctor_finds_a_fresh_schema_as_shipped(wakeful: Commands) -> None:
    # A test server may well be one that does not fsync: that is a finding too.
    told = {one["name"]: one for one in json.loads(wakeful.run("doctor", "--json").stdout)["findings"]}
    assert told["drift"]["level"] == "ok", told["drift"]
    assert told["indexes"]["level"] == "ok", told["indexes"]
    assert "The four roles are there." in wakeful.run("doctor").stdout


@pytest.mark.parametrize(
    ("change", "told", "level"),
    [
        (
            "alter table wakeful.metric_delta alter column runs type int",
            "column metric_delta.runs was changed (integer ",
            "failing",
        ),
        ("alter table wakeful.job alter column pokes set default true", "column job.pokes was changed", "failing"),
        ("alter table wakeful.job alter column created_at drop not null", "column job.created_at was ch", "failing"),
        ("alter table wakeful.gate rename column key to name", "column gate.key is missing", "failing"),
        ("alter table wakeful.job drop constraint job_state_is_live", "constraint job_state_is_live is", "failing"),
        ("drop index wakeful.job_expiry", "index job_expiry is missing", "failing"),
        (
            "drop index wakeful.job_running; create index job_running on wakeful.job (worker_id)",
            "index job_running was changed (btree (worker_id), shipped as btree (worker_id) WHERE (state = 2))",
            "failing",
        ),
        ("alter table wakeful.job add column note text", "column job.note was added", "warning"),
        ("create index mine on wakeful.job (tenant)", "index mine was added", "warning"),
    ],
)
def test_the_doctor_compares_columns_constraints_and_indexes(
    wakeful: Commands, db: Session, change: str, told: str, level: str
) -> None:
    db.execute(change.encode(), prepare=False)
    findings = {one["name"]: one for one in json.loads(wakeful.run("doctor", "--json").stdout)["findings"]}
    assert told in findings["drift"]["told"]
    assert findings["drift"]["level"] == level


def test_the_doctor_names_what_was_changed_by_hand(wakeful: Commands, db: Session) -> None:
    db.execute("drop index wakeful.job_expiry")
    db.execute("alter table wakeful.job set (autovacuum_enabled = off)")
    db.execute(
        "create or replace function wakeful.make_days(ahead integer default 7) returns integer language plpgsql"
        " security definer set search_path = pg_catalog, pg_temp as 'begin return 0; end'"
    )
    told = {one["name"]: one for one in wakeful.json("doctor", code=1)["findings"]}
    assert "Missing: job_expiry." in told["indexes"]["told"]
    assert "function make_days was changed" in told["drift"]["told"]
    assert told["autovacuum"]["level"] == "failing"
    assert all(told[name]["remedy"] for name in ("indexes", "drift", "autovacuum"))
