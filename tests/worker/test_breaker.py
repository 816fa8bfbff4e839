"""Circuit breakers in a worker: an outage, from its first failure to the last job."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from tests.sessions import Session, query, scalar
from tests.worker.work import comes_to, soon, starting, working
from wakeful.app import Wakeful
from wakeful.values.errors import BreakerOpen
from wakeful.values.outcome import Dead
from wakeful.values.retry import Fixed


async def test_jobs_behind_an_open_breaker_start_by_timer(app: Wakeful, db: Session) -> None:
    started: list[float] = []

    @app.task(name="call", breaker="smtp")
    async def call() -> None:
        started.append(time.monotonic())

    async with working(app):
        db.execute("select wakeful.trip_breaker('smtp', '700 milliseconds')")
        since = time.monotonic()
        id = await call.aenqueue()
        await comes_to(db, id, "completed")
    # By the timer: the pulse comes much later.
    assert 0.6 < started[0] - since < 10


async def test_a_reset_starts_them_at_once(app: Wakeful, db: Session) -> None:
    @app.task(name="call", breaker="smtp")
    async def call() -> None: ...

    async with working(app):
        db.execute("select wakeful.trip_breaker('smtp', '1 hour')")
        id = await call.aenqueue()
        await asyncio.sleep(0.3)
        assert scalar(db, "select state from wakeful.jobs where id = %s", id) == "ready"
        db.execute("select wakeful.reset_breaker('smtp')")
        assert (await comes_to(db, id, "completed"))["attempt"] == 1


async def test_only_what_the_user_says_counts(app: Wakeful, db: Session) -> None:
    @app.task(name="call", breaker="smtp", breaker_on=ConnectionError, retry=Fixed(0), max_attempts=8)
    async def call(fault: bool) -> None:
        raise ConnectionError("down") if fault else ValueError("bad address")

    @app.task(name="bad", breaker="smtp")
    async def bad() -> None:
        raise Dead("its own fault")

    async with working(app):
        await comes_to(db, await call.aenqueue(fault=False), "dead")
        await comes_to(db, await bad.aenqueue(), "dead")
        assert scalar(db, "select failure_count from wakeful.breakers") == 0
        await call.aenqueue(fault=True)
        await soon(lambda: scalar(db, "select state from wakeful.breakers") == "open")


async def test_inside_a_handler_an_open_breaker_snoozes_the_job_uncharged(app: Wakeful, db: Session) -> None:
    entered: list[int] = []

    @app.task(name="call")
    async def call() -> str:
        async with app.breaker("api"):
            entered.append(1)
        return "done"

    @app.task(name="sync")
    def call_sync() -> str:
        with app.breaker("api"):
            entered.append(1)
        return "done"

    async with working(app):
        db.execute("select wakeful.trip_breaker('api', '500 milliseconds')")
        ids = [await call.aenqueue(), await call_sync.aenqueue()]
        for id in ids:
            told = await comes_to(db, id, "completed")
            assert told["attempt"] == 1
            assert told["attempts"][0]["outcome"] == "snoozed"
    assert len(entered) == 2
    assert scalar(db, "select state from wakeful.breakers") == "closed"


async def test_calls_inside_handlers_open_it(app: Wakeful, db: Session) -> None:
    api = app.breaker("api", threshold=3, open_for="1 hour", counts=ConnectionError)

    @app.task(name="call", retry=Fixed(0), max_attempts=10)
    async def call() -> None:
        async with api:
            raise ConnectionError("down")

    async with working(app):
        id = await call.aenqueue()
        await comes_to(db, id, "scheduled")
    [told] = query(db, "select state, failure_count from wakeful.breakers")
    assert told == {"state": "open", "failure_count": 3}
    assert scalar(db, "select attempt from wakeful.jobs where id = %s", id) == 3


def test_a_breaker_stands_alone(app: Wakeful, db: Session) -> None:
    api = app.breaker("api", counts=ConnectionError, threshold=2)
    for _ in range(2):
        with pytest.raises(ConnectionError), api:
            raise ConnectionError("down")
    with pytest.raises(BreakerOpen) as refused, api:
        raise AssertionError("it is open")
    assert refused.value.breaker == "api"
    assert 50 < refused.value.retry_in <= 60


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    return [vars(record) for record in caplog.records if getattr(record, "event", None) == event]


async def test_the_worker_that_moves_a_breaker_logs_it_at_once_and_once(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    down = True
    app.breaker("smtp", threshold=2, open_for="300ms", cap="300ms")

    @app.task(name="call", breaker="smtp", retry=Fixed(0), max_attempts=1000)
    async def call() -> None:
        if down:
            raise ConnectionError("it is down")

    async with starting(app, concurrency=4), starting(app, concurrency=4):
        id = await call.aenqueue()
        await soon(lambda: bool(told(caplog, "breaker_opened")))
        down = False
        await comes_to(db, id, "completed")
        await soon(lambda: bool(told(caplog, "breaker_closed")))
    [opened] = [one for one in told(caplog, "breaker_opened") if one["from"] == "closed"]
    assert (opened["breaker"], opened["levelname"], opened["failures"]) == ("smtp", "WARNING", 2)
    assert opened["open_seconds"] == 0.3
    [closed] = told(caplog, "breaker_closed")
    assert (closed["breaker"], closed["levelname"], closed["from"]) == ("smtp", "INFO", "half_open")


def test_a_guard_outside_of_any_worker_logs_it_too(app: Wakeful, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    breaker = app.breaker("smtp")
    for _ in range(5):
        with pytest.raises(ConnectionError), breaker:
            raise ConnectionError("down")
    with pytest.raises(BreakerOpen), breaker:
        pass
    [opened] = told(caplog, "breaker_opened")
    assert (opened["breaker"], opened["from"]) == ("smtp", "closed")


async def test_one_worker_of_the_fleet_logs_what_a_person_does_to_a_breaker(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @app.task(name="call", breaker="smtp")
    async def call() -> None: ...

    async with working(app), working(app):
        db.execute("select wakeful.trip_breaker('smtp', '1 hour', 'anna')")
        db.execute("select wakeful.trip_breaker('smtp', '2 hours', 'anna')")
        await soon(lambda: bool(told(caplog, "breaker_opened")))
        db.execute("select wakeful.reset_breaker('smtp', 'berta')")
        await soon(lambda: bool(told(caplog, "breaker_closed")))
        await comes_to(db, await call.aenqueue(), "completed")
    assert [(one["breaker"], one["by"]) for one in told(caplog, "breaker_opened")] == [("smtp", "anna")]
    assert [(one["breaker"], one["by"]) for one in told(caplog, "breaker_closed")] == [("smtp", "berta")]


def test_what_is_known_of_a_breaker_is_not_undone_by_a_caller(app: Wakeful, db: Session) -> None:
    db.execute("select wakeful.set_breaker('api', threshold => 7)")
    with app.breaker("api", threshold=2):
        pass
    assert scalar(db, "select threshold from wakeful.breakers") == 7
