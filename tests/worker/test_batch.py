"""A task that takes lists: jobs are gathered into a call, and each is settled on its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from tests.sessions import Session, scalar
from tests.worker.work import all_over, comes_to, report, soon, starting
from wakeful.app import Wakeful
from wakeful.values.outcome import Cancel, Dead, Snooze
from wakeful.values.retry import Fixed


class Row(msgspec.Struct):
    number: int


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_jobs_are_gathered_up_to_the_size_of_a_batch(app: Wakeful, db: Session, kind: str) -> None:
    calls: list[list[int]] = []

    @app.task(name="loop", batch=10, linger="100ms")
    async def on_loop(rows: list[Row]) -> list[int]:
        calls.append([row.number for row in rows])
        return [row.number * 2 for row in rows]

    @app.task(name="thread", batch=10, linger="100ms")
    def in_thread(rows: list[Row]) -> list[int]:
        calls.append([row.number for row in rows])
        return [row.number * 2 for row in rows]

    ids = await app.tasks[kind].aenqueue_many([{"number": number} for number in range(25)])
    async with starting(app):
        assert await all_over(db, ids) == {"completed": 25}
    assert sorted(number for call in calls for number in call) == list(range(25))
    assert max(map(len, calls)) == 10
    assert len(calls) <= 5
    assert [report(db, id)["result"] for id in ids] == [number * 2 for number in range(25)]


async def test_a_batch_that_is_not_full_goes_when_its_oldest_has_waited_long_enough(app: Wakeful, db: Session) -> None:
    calls: list[int] = []

    @app.task(name="t", batch=100, linger="50ms")
    async def t(rows: list[Row]) -> None:
        calls.append(len(rows))

    async with starting(app):
        await comes_to(db, await app.aenqueue("t", {"number": 1}), "completed")
        assert calls == [1]
        assert scalar(db, "select result from wakeful.jobs") is None


async def test_each_job_of_a_batch_has_an_outcome_of_its_own(app: Wakeful, db: Session) -> None:
    @app.task(name="t", batch=10, linger="200ms", retry=Fixed(3600))
    async def t(rows: list[Row]) -> list[Any]:
        said: dict[int, Any] = {
            0: "fine",
            1: ValueError("odd"),
            2: Dead("hopeless"),
            3: Snooze(3600),
            4: Cancel("not wanted"),
            5: object(),
        }
        return [said[row.number] for row in rows]

    ids = [await app.aenqueue("t", {"number": number}) for number in range(6)]
    # Somebody wrote it in plain SQL: it fails alone, before the call.
    bad = scalar(db, "select wakeful.enqueue('t', '{\"number\": \"many\"}')")
    async with starting(app):
        states = ["completed", "scheduled", "dead", "scheduled", "cancelled", "dead"]
        for id, wanted in zip(ids, states, strict=True):
            await comes_to(db, id, wanted)
        assert (await comes_to(db, bad, "scheduled"))["attempt"] == 1
    assert [report(db, id)["attempt"] for id in ids] == [1, 1, 1, 0, 1, 1]


async def test_a_batch_that_raises_fails_all_of_its_jobs(app: Wakeful, db: Session) -> None:
    @app.task(name="t", batch=10, linger="100ms", retry=Fixed(3600))
    async def t(rows: list[Row]) -> None:
        raise ValueError("all of them")

    ids = await app.tasks["t"].aenqueue_many([{"number": number} for number in range(3)])
    async with starting(app):
        for id in ids:
            assert (await comes_to(db, id, "scheduled"))["last_error_message"] == "all of them"


async def test_a_list_of_the_wrong_length_is_a_failure_that_says_so(app: Wakeful, db: Session) -> None:
    @app.task(name="t", batch=10, linger="100ms", retry=Fixed(3600))
    async def t(rows: list[Row]) -> list[int]:
        return [1]

    ids = await app.tasks["t"].aenqueue_many([{"number": number} for number in range(2)])
    async with starting(app):
        for id in ids:
            assert "list of 2 entries" in (await comes_to(db, id, "scheduled"))["last_error_message"]


async def test_a_batch_that_takes_too_long_is_stopped(app: Wakeful, db: Session) -> None:
    @app.task(name="t", batch=2, linger="50ms", timeout=0.2, retry=Fixed(3600))
    async def t(rows: list[Row]) -> None:
        await asyncio.sleep(3600)

    ids = await app.tasks["t"].aenqueue_many([{"number": number} for number in range(2)])
    async with starting(app, concurrency=1):
        for id in ids:
            assert (await comes_to(db, id, "scheduled"))["last_error_code"] == "timeout"


async def test_a_batch_in_a_thread_that_takes_too_long_keeps_its_slot(app: Wakeful, db: Session) -> None:
    go = threading.Event()
    calls: list[int] = []

    @app.task(name="t", batch=2, linger="1s", timeout=0.2, retry=Fixed(3600))
    def t(rows: list[Row]) -> None:
        calls.append(len(rows))
        go.wait(60)

    first = await app.tasks["t"].aenqueue_many([{"number": number} for number in range(2)])
    async with starting(app, concurrency=1):
        for id in first:
            assert (await comes_to(db, id, "scheduled"))["last_error_code"] == "timeout"
        second = await app.aenqueue("t", {"number": 3})
        await asyncio.sleep(0.2)
        assert (report(db, second)["state"], len(calls)) == ("ready", 1)
        go.set()
        await comes_to(db, second, "completed")


async def test_a_worker_that_stops_hands_a_batch_that_gathers_back(app: Wakeful, db: Session) -> None:
    @app.task(name="t", batch=100, linger="1m")
    async def t(rows: list[Row]) -> None: ...

    ids = await app.tasks["t"].aenqueue_many([{"number": number} for number in range(3)])
    async with starting(app):
        for id in ids:
            await comes_to(db, id, "running")
    assert [(report(db, id)["state"], report(db, id)["attempt"]) for id in ids] == [("ready", 0)] * 3


async def test_one_job_of_a_batch_that_gathers_is_cancelled(app: Wakeful, db: Session) -> None:
    @app.task(name="t", batch=100, linger="1m")
    async def t(rows: list[Row]) -> None: ...

    ids = await app.tasks["t"].aenqueue_many([{"number": number} for number in range(3)])
    async with starting(app):
        for id in ids:
            await comes_to(db, id, "running")
        assert scalar(db, "select wakeful.cancel(%s)", ids[1]) == "requested"
        await comes_to(db, ids[1], "cancelled")
        assert report(db, ids[0])["state"] == "running"


async def test_a_batch_task_does_not_make_the_worker_hoard_other_jobs(app: Wakeful, db: Session) -> None:
    """Two slots, a slow task, and beside it a task that takes a hundred at a time."""
    go = asyncio.Event()

    @app.task(name="slow")
    async def slow() -> None:
        await go.wait()

    @app.task(name="t", batch=100)
    async def t(rows: list[Row]) -> None: ...

    await slow.aenqueue_many([{} for _ in range(20)])
    async with starting(app, concurrency=2):
        await soon(lambda: scalar(db, "select count(*) from wakeful.job where state = 2") > 0)
        await comes_to(db, await app.aenqueue("t", {"number": 1}), "ready")
        held = scalar(db, "select count(*) from wakeful.job where state = 2 and task = 'slow'")
        go.set()
        assert held <= 2
