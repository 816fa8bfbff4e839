"""Seed 004, Harmonyk: a TypeScript service on plain SQL calls keeps what its document promises."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.harmonyk.start import HERE, environment, set_up
from tests.acceptance.processes import wait_until
from tests.sessions import Session, query, scalar, session, shift_clock
from wakeful.testing import Database
from wakeful.values.dedup import dedup_key
from wakeful.values.retryable import backoff

TOKEN = {"authorization": "Bearer secret"}


@pytest.fixture(scope="session")
def node() -> Path:
    return set_up()


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@pytest.fixture
def api(node: Path, database: Database) -> Iterator[httpx.Client]:
    """The service as a process of its own, on a port that the system chose."""
    given = {**environment(database.dsn), "PORT": "0", "JOBS_TICK_TOKEN": "secret"}
    process = subprocess.Popen([node, "server.ts"], cwd=HERE, env=given, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = wait_until(process.stdout.readline, "the server").rpartition(" ")[2].strip()
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client
    process.terminate()
    assert process.wait(20) == 0
    process.stdout.close()


def enqueue(api: httpx.Client, type: str = "vault.index", org: str | None = "org-1", **more: Any) -> str:
    more.setdefault("payload", {"document": "a", "text": "two words"})
    answer = api.post("/api/jobs", json={"type": type, **more}, headers={"x-org-id": org} if org else {})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def tick(api: httpx.Client, limit: int = 10) -> dict[str, Any]:
    answer = api.post(f"/api/jobs/tick?limit={limit}", headers=TOKEN)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    assert told.pop("ok") is True
    return told


def test_backoff_and_can_retry_follow_the_table(node: Path) -> None:
    """The pure rules, by node's own test runner."""
    done = subprocess.run([node, "--test"], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "pass 4" in done.stdout


def test_the_types_hold(node: Path) -> None:
    done = subprocess.run(
        [node, "node_modules/typescript/bin/tsc"], cwd=HERE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_dedupe_key_has_the_same_bytes_in_typescript_python_and_sql(node: Path, db: Session) -> None:
    payloads: list[dict[str, Any]] = [
        {},
        {"b": 1, "a": {"d": [1, 2, {"z": None, "y": True}], "c": "é"}},
        {"a\U00010000": 1, "a\uffff": 2, "a": 3, "ä": 4},
        {"text": 'quote " back \\ line \n tab \t bell \u0007 slash / del \u007f \u2028'},
        {"numbers": [0, -0.0, 1.0, 1e21, 1e-7, 123456789012345, 0.1, -2.5e-10, 1.7976931348623157e308, 5e-324]},
    ]
    asked = [("vault.index", org, payload) for org in ("org-1", None) for payload in payloads]
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    done = subprocess.run([node, "keys.ts"], cwd=HERE, input=lines, capture_output=True, text=True, check=True)
    typescript = [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]
    assert typescript == [dedup_key(*one) for one in asked]
    by_sql = "select wakeful.dedup_key(%s, %s, %s::jsonb)"
    assert typescript == [scalar(db, by_sql, type, org, json.dumps(payload)) for type, org, payload in asked]


def test_enqueue_maps_type_organisation_payload_and_time(api: httpx.Client, db: Session) -> None:
    id = enqueue(api, runAt="2999-01-01T00:00:00Z")
    [row] = query(db, "select * from wakeful.jobs")
    assert (str(row["id"]), row["task"], row["tenant"]) == (id, "vault.index", "org-1")
    assert (row["state"], row["payload"]) == ("scheduled", {"document": "a", "text": "two words"})
    assert row["run_at"].year == 2999
    assert tick(api)["claimed"] == 0


def test_a_tick_claims_at_most_so_many_runs_them_and_marks_success(api: httpx.Client, db: Session) -> None:
    for number in range(5):
        enqueue(api, payload={"document": f"d{number}", "text": "a b c"})
    assert tick(api, limit=3) == {"claimed": 3, "succeeded": 3, "failed": 0, "lost": 0}
    assert tick(api, limit=3) == {"claimed": 2, "succeeded": 2, "failed": 0, "lost": 0}
    assert scalar(db, "select sum(words) from document_index where org_id = 'org-1'") == 15
    assert query(db, "select state, count(*) as jobs from wakeful.jobs group by 1") == [
        {"state": "completed", "jobs": 5}
    ]


def test_mark_failure_waits_longer_each_time_and_ends_as_failed(api: httpx.Client, db: Session) -> None:
    enqueue(api, "org.digest", payload={"broken": True})
    for attempts in (1, 2, 3, 4):
        assert tick(api)["failed"] == 1
        [row] = query(db, "select *, run_at - updated_at as wait from wakeful.jobs")
        assert (row["state"], row["attempt"]) == ("scheduled", attempts)
        assert row["last_error_message"] == "the mail server is away"
        assert row["wait"] == backoff(attempts)
        assert tick(api)["claimed"] == 0
        shift_clock(db, "61 seconds")
    assert tick(api)["failed"] == 1
    assert scalar(db, "select state from wakeful.jobs") == "dead"
    shift_clock(db, "1 hour")
    assert tick(api)["claimed"] == 0


def test_noisy_jobs_are_one_job_while_it_is_queued_or_running(api: httpx.Client, db: Session) -> None:
    first = enqueue(api, payload={"document": "a", "text": "x"}, dedupe=True)
    assert enqueue(api, payload={"text": "x", "document": "a"}, dedupe=True) == first
    assert enqueue(api, org="org-2", payload={"document": "a", "text": "x"}, dedupe=True) != first
    assert tick(api)["claimed"] == 2
    assert enqueue(api, payload={"document": "a", "text": "x"}, dedupe=True) != first


def test_each_run_is_metered_once_for_its_organisation(api: httpx.Client, db: Session) -> None:
    enqueue(api)
    enqueue(api, "org.digest", payload={"broken": True})
    enqueue(api, org="org-2")
    enqueue(api, org=None)
    tick(api)
    told = api.get("/api/usage", headers={"x-org-id": "org-1"}).json()
    assert [(row["type"], row["outcome"], row["runs"]) for row in told] == [
        ("org.digest", "retry", 1),
        ("vault.index", "success", 1),
    ]
    assert all(row["duration_ms"] >= 0 for row in told)
    assert api.get("/api/usage").json()[0]["runs"] == 1
    assert scalar(db, "select count(*) from usage_event") == 4


def test_two_ticks_at_once_run_no_job_twice(api: httpx.Client, db: Session) -> None:
    for number in range(30):
        enqueue(api, payload={"document": f"d{number}", "text": ""})
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: tick(api), range(4)))
    assert sum(one["succeeded"] for one in told) == 30
    assert scalar(db, "select count(*) from usage_event") == 30


def test_a_tick_needs_the_token(api: httpx.Client) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}):
        assert api.post("/api/jobs/tick", headers=headers).status_code == 401
    assert api.post("/api/jobs", content=b"{").status_code == 400
    assert api.get("/nowhere").status_code == 404
