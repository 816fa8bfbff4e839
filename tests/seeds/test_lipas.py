"""Seed 001, LIPAS: its four unit and four integration tests by name, its configuration, and its operations."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

import httpx
import pytest

from examples.lipas.jobs import HERE, SCHEMA, app, email, integration, is_the_services_fault, site_saved, webhook
from examples.lipas.services import Services, services
from tests.acceptance.commands import Commands
from tests.acceptance.processes import wait_until
from tests.sessions import Session, query, scalar, session
from wakeful import Exponential, with_retry, with_timeout
from wakeful.config import Lane, load
from wakeful.testing import Database, Sandbox, sandboxed

EMAIL_BREAKER = "select state from wakeful.breakers where name = 'email-service'"


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        conn.execute(SCHEMA)
        yield conn


@pytest.fixture
def sandbox(database: Database, db: Session) -> Iterator[Sandbox]:
    with sandboxed(app, database) as made:
        yield made


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    with services() as made:
        monkeypatch.setenv("LIPAS_SERVICES", made.url)
        yield made


@pytest.fixture
def wakeful(database: Database) -> Commands:
    return Commands(database.dsn)


def row(db: Session, id: UUID | None) -> dict[str, object]:
    [found] = query(db, "select * from wakeful.jobs where id = %s", id)
    return found


class TestPatterns:
    def test_exponential_backoff_calculations(self) -> None:
        policy = app.settings.steering.retry
        assert isinstance(policy, Exponential)
        middle = [policy.delay(attempt, lambda: 0.5) for attempt in range(1, 12)]
        assert middle[:4] == [timedelta(seconds=seconds) for seconds in (1, 2, 4, 8)]
        assert all(timedelta(seconds=270) <= wait <= timedelta(seconds=300) for wait in middle[9:] if wait)
        assert policy.delay(1, lambda: 0.0) == timedelta(seconds=0.9)

    async def test_timeout_behavior(self) -> None:
        async def quick() -> int:
            return 7

        assert await with_timeout("30s", quick) == 7
        with pytest.raises(TimeoutError):
            await with_timeout(0.01, asyncio.sleep, 3600)

    def test_circuit_breaker_state_transitions(self, sandbox: Sandbox, db: Session) -> None:
        """Closed, open after five failures, half-open when its time has passed, closed by a success."""
        breaker = app.breaker("unit", threshold=5, open_for="60s")
        app.worker().run_once()

        def state() -> str:
            return str(scalar(db, "select state from wakeful.breakers where name = 'unit'"))

        for _ in range(5):
            with pytest.raises(ConnectionError), breaker:
                raise ConnectionError
        assert state() == "open"
        with pytest.raises(Exception, match="unit"), breaker:
            raise AssertionError("an open breaker lets nobody through")
        sandbox.travel(seconds=61)
        with breaker:
            assert state() == "half_open"
        assert state() == "closed"

    def test_retry_logic(self) -> None:
        asked: list[int] = []

        def flaky() -> str:
            asked.append(1)
            if len(asked) < 3:
                raise ConnectionError
            return "there"

        assert with_retry(flaky, retry=Exponential(0.001, cap=0.01), max_attempts=5) == "there"
        assert len(asked) == 3


class TestIntegration:
    def test_job_failure_and_retry(self, sandbox: Sandbox, db: Session, world: Services) -> None:
        world.down.add("integration")
        id = integration.enqueue(7)
        assert sandbox.drain().failed == 1
        found = row(db, id)
        assert (found["state"], found["attempt"]) == ("scheduled", 1)
        assert "503" in str(found["last_error_message"])
        assert found["last_error_at"] is not None
        world.down.clear()
        sandbox.travel(seconds=2)
        assert sandbox.drain().succeeded == 1
        assert world.delivered["integration"] == [str(id)]

    def test_dead_letter_queue(self, sandbox: Sandbox, db: Session, world: Services) -> None:
        refused = email.enqueue("nobody", bad=True)
        world.down.add("webhook")
        tired = webhook.enqueue(7)
        for _ in range(3):
            sandbox.drain()
            sandbox.travel(minutes=6)
        letters = {one["id"]: one for one in query(db, "select * from wakeful.dead_letters")}
        assert set(letters) == {refused, tired}
        assert letters[refused]["error_message"] == "email refuses it (422)"
        assert (letters[refused]["attempt"], letters[tired]["attempt"]) == (1, 3)
        assert letters[tired]["original_job"]["payload"] == {"site": 7}

    def test_circuit_breaker_integration(self, sandbox: Sandbox, db: Session, world: Services) -> None:
        """Down: no more calls than the threshold, and no attempt is lost to an open breaker. Back: all are sent."""
        world.down.add("email")
        ids = [email.enqueue(f"to-{number}") for number in range(20)]
        sandbox.drain()
        assert scalar(db, EMAIL_BREAKER) == "open"
        # As many as had started before the first failure was known, and no more than the threshold after it.
        assert 5 <= world.calls["email"] <= 10 + 5
        assert scalar(db, "select sum(attempt) from wakeful.job") == world.calls["email"]
        assert site_saved.enqueue(1, "editor") is not None
        sandbox.drain()
        assert set(world.delivered) == {"integration", "webhook"}
        world.down.clear()
        for _ in range(8):
            sandbox.travel(seconds=61)
            sandbox.drain()
        assert scalar(db, EMAIL_BREAKER) == "closed"
        assert set(world.delivered["email"]) >= {str(id) for id in ids}

    def test_correlation_id_propagation(self, sandbox: Sandbox, db: Session, world: Services) -> None:
        parent = site_saved.using(created_by="admin@lipas.fi").enqueue(7, "editor@lipas.fi")
        other = site_saved.enqueue(8, "editor@lipas.fi")
        sandbox.drain()
        family = query(db, "select task, parent_id from wakeful.jobs where correlation_id = %s order by task", parent)
        assert [one["task"] for one in family] == ["email", "integration", "site-saved", "webhook"]
        assert {one["parent_id"] for one in family} == {parent, None}
        assert scalar(db, "select count(distinct correlation_id) from wakeful.jobs") == 2
        assert row(db, parent)["created_by"] == "admin@lipas.fi"
        assert other != parent


def test_the_configuration_block_one_to_one() -> None:
    settings = load(environ={}, directory=HERE)
    assert settings.worker.queues == (Lane("fast", 3), Lane("general", 5))
    assert settings.worker.poll_interval == timedelta(seconds=1)
    assert settings.steering.retry == Exponential(1, cap=300, jitter=0.1)
    assert settings.steering.breaker.threshold == 5
    assert settings.steering.breaker.open_for == timedelta(seconds=60)


async def test_two_lanes_do_not_wait_for_each_other(
    sandbox: Sandbox, db: Session, world: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five general jobs that never end leave the fast lane free."""
    go_on = asyncio.Event()

    async def stuck(*_: object) -> None:
        await go_on.wait()

    async def soon(condition: Callable[[], object]) -> None:
        await asyncio.to_thread(wait_until, condition)

    monkeypatch.setattr("examples.lipas.jobs.call", stuck)
    worker = app.worker()
    running = asyncio.create_task(worker.arun())
    for site in range(8):
        await integration.aenqueue(site)
    await soon(lambda: scalar(db, "select count(*) from wakeful.job where state = 2") == 5)
    await app.aenqueue("monitor-queue-health")
    await soon(
        lambda: scalar(db, "select count(*) from wakeful.jobs where task like 'monitor%%' and state = 'completed'")
    )
    assert scalar(db, "select count(*) from wakeful.job where state = 2") == 5
    go_on.set()
    await soon(lambda: scalar(db, "select count(*) from wakeful.job where task = 'integration'") == 0)
    worker.stop()
    await running


def test_the_monitor_notes_what_a_person_should_see(sandbox: Sandbox, db: Session, world: Services) -> None:
    email.enqueue("nobody", bad=True)
    world.down.add("integration")
    for site in range(6):
        integration.enqueue(site)
    sandbox.drain()
    app.enqueue("monitor-queue-health")
    sandbox.drain()
    alerts = [one["what"] for one in query(db, "select what from alert")]
    assert "1 dead letters of email that nobody has seen" in alerts
    assert "the breaker of integration-api is open" in alerts


def test_the_monitor_is_scheduled_every_five_minutes(sandbox: Sandbox, db: Session, world: Services) -> None:
    app.worker().run_once()
    [schedule] = query(db, "select * from wakeful.schedules")
    assert schedule["task"] == "monitor-queue-health"
    sandbox.travel(minutes=5, seconds=1)
    sandbox.drain()
    assert scalar(db, "select count(*) from wakeful.jobs where task = 'monitor-queue-health'") == 1


def test_health_view_has_the_documents_columns(sandbox: Sandbox, db: Session) -> None:
    email.enqueue("a")
    [found] = query(db, "select * from wakeful.queue_health")
    assert (found["task"], found["state"], found["count"], found["max_attempts"]) == ("email", "ready", 1, 0)
    assert found["oldest"] is not None
    assert found["avg_age_seconds"] >= 0


def test_acknowledge_requeue_and_reset_by_hand(
    sandbox: Sandbox, db: Session, world: Services, wakeful: Commands
) -> None:
    """The document's common operations. A requeued job keeps its correlation id."""
    correlation = scalar(db, "select gen_random_uuid()")
    first = email.using(correlation_id=correlation).enqueue("nobody", bad=True)
    second = email.enqueue("nobody else", bad=True)
    sandbox.drain()
    wakeful.text("dead", "ack", str(second))
    assert row(db, second)["state"] == "dead"
    [letter] = query(db, "select acknowledged_by from wakeful.dead_letters where id = %s", second)
    assert letter == {"acknowledged_by": "tester"}
    wakeful.text("dead", "requeue", str(first), "--yes")
    [again] = query(db, "select correlation_id, payload from wakeful.job")
    assert again == {"correlation_id": correlation, "payload": {"to": "nobody", "bad": True}}
    wakeful.text("breakers", "trip", "email-service")
    assert scalar(db, EMAIL_BREAKER) == "open"
    wakeful.text("breakers", "reset", "email-service")
    assert scalar(db, EMAIL_BREAKER) == "closed"


def test_what_is_the_services_fault() -> None:
    request = httpx.Request("POST", "http://service")
    broken = httpx.HTTPStatusError("", request=request, response=httpx.Response(503))
    refused = httpx.HTTPStatusError("", request=request, response=httpx.Response(404))
    verdicts = [is_the_services_fault(error) for error in (httpx.ConnectError(""), broken, refused, ValueError())]
    assert verdicts == [True, True, False, False]


def test_the_story_runs_from_one_command(database: Database) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.lipas"],
        env={**os.environ, "WAKEFUL_DSN": database.dsn},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    called = re.search(r"It was called (\d+) times", done.stdout)
    assert called is not None
    assert 5 <= int(called[1]) <= 3 + 5
    assert "email refuses it (422)" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].split()[1] == "completed"
