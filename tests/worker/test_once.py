"""Run what is due, and return with a summary."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.sessions import Session, query, scalar, value
from tests.worker.work import report, state
from wakeful.app import Wakeful
from wakeful.testing import Database
from wakeful.values.errors import InvalidOption
from wakeful.values.outcome import Snooze
from wakeful.values.retry import Fixed


@pytest.fixture(autouse=True)
def _tasks(app: Wakeful) -> None:
    @app.task(name="good")
    async def good() -> None: ...

    @app.task(name="bad", retry=Fixed(0))
    def bad() -> None:
        raise ValueError

    @app.task(name="sleepy")
    async def sleepy() -> Snooze:
        return Snooze(3600)


async def test_the_summary_counts_by_task(app: Wakeful, db: Session) -> None:
    for name, number in (("good", 3), ("bad", 2), ("sleepy", 1)):
        for _ in range(number):
            await app.aenqueue(name, max_attempts=1)
    summary = await app.worker().arun_once()
    assert (summary.processed, summary.succeeded, summary.failed) == (6, 3, 2)
    by_task = {task: (tally.processed, tally.succeeded, tally.failed) for task, tally in summary.by_task.items()}
    assert by_task == {"good": (3, 3, 0), "bad": (2, 0, 2), "sleepy": (1, 0, 0)}
    assert not query(db, "select from wakeful.worker")


def test_it_runs_from_sync_code_too(database: Database, db: Session) -> None:
    with Wakeful(database.dsn) as app:

        @app.task(name="t")
        def t(number: int) -> int:
            return number + 1

        id = t.enqueue(1)
        assert app.worker().run_once().succeeded == 1
        assert report(db, id)["result"] == 2


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_no_more_than_the_limit_are_run(app: Wakeful, db: Session, limit: int) -> None:
    await app.tasks["good"].aenqueue_many([{} for _ in range(10)])
    summary = await app.worker(concurrency=4).arun_once(limit)
    assert summary.processed == min(limit, 10)
    assert scalar(db, "select count(*) from wakeful.job where state = 1 and attempt = 0") == max(0, 10 - limit)


async def test_the_limit_holds_over_all_lanes(app: Wakeful, db: Session) -> None:
    for queue in ("a", "b"):
        await app.tasks["good"].using(queue=queue).aenqueue_many([{} for _ in range(10)])
    summary = await app.worker(queues="a:4,b:4").arun_once(5)
    assert summary.processed == 5
    assert scalar(db, "select count(*) from wakeful.job where state = 1") == 15


async def test_a_limit_below_the_number_of_lanes_looks_into_all_of_them(app: Wakeful, db: Session) -> None:
    worker, began = app.worker(queues="a:3,b:5"), time.monotonic()
    assert (await worker.arun_once(1)).processed == 0
    await app.aenqueue("good", queue="b")
    assert (await worker.arun_once(1)).processed == 1
    assert time.monotonic() - began < 30


async def test_with_nothing_to_do_it_returns_at_once(app: Wakeful) -> None:
    began = time.monotonic()
    assert (await app.worker().arun_once()).processed == 0
    assert time.monotonic() - began < 10


async def test_what_is_due_later_is_left(app: Wakeful, db: Session) -> None:
    later = await app.aenqueue("good", delay=3600)
    due = value(db, "enqueue", task="good", payload={}, delay="10 ms")
    await asyncio.sleep(0.05)
    assert (await app.worker().arun_once()).processed == 1
    assert (state(db, later), state(db, due)) == ("scheduled", "completed")


async def test_queues_that_no_task_names_are_served_too(app: Wakeful, db: Session) -> None:
    id = await app.aenqueue("good", queue="unheard.of")
    assert (await app.worker().arun_once()).processed == 1
    assert state(db, id) == "completed"


async def test_a_failed_job_is_retried_by_a_later_run(app: Wakeful, db: Session) -> None:
    id = await app.aenqueue("bad", max_attempts=2)
    first = await app.worker().arun_once(1)
    assert (first.failed, state(db, id)) == (1, "ready")
    second = await app.worker().arun_once(1)
    assert (second.failed, state(db, id)) == (1, "dead")


async def test_a_limit_below_one_is_refused(app: Wakeful) -> None:
    with pytest.raises(InvalidOption, match="limit"):
        await app.worker().arun_once(0)
