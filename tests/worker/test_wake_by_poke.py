"""Whatever makes a job runnable wakes a sleeping worker at once: the pulse is a minute away, and no timer is set."""

from __future__ import annotations

import asyncio
from uuid import UUID

import psycopg
import pytest

from tests.sessions import Session, call, value
from tests.worker.work import at_rest, comes_to, counts, report, soon, state, working
from wakeful.app import Wakeful
from wakeful.run.context import Context
from wakeful.values.outcome import Dead, Retry
from wakeful.values.retry import Fixed


@pytest.fixture(autouse=True)
def _tasks(app: Wakeful) -> None:
    @app.task(name="t")
    async def t(number: int = 0) -> int:
        return number


async def test_an_enqueue_in_python(app: Wakeful, db: Session) -> None:
    async with working(app):
        id = await app.aenqueue("t", {"number": 7})
        assert (await comes_to(db, id, "completed"))["result"] == 7


async def test_an_enqueue_from_a_thread(app: Wakeful, db: Session) -> None:
    async with working(app):
        id = await asyncio.to_thread(app.enqueue, "t", {"number": 7})
        await comes_to(db, id, "completed")


async def test_an_enqueue_in_plain_sql(app: Wakeful, db: Session) -> None:
    async with working(app):
        id = value(db, "enqueue", task="t", payload={"number": 7})
        await comes_to(db, id, "completed")


async def test_many_in_one_call(app: Wakeful, db: Session) -> None:
    async with working(app):
        ids = await app.tasks["t"].aenqueue_many([{"number": number} for number in range(20)])
        for id in ids:
            await comes_to(db, id, "completed")


async def test_the_commit_of_the_transaction_that_enqueues_and_nothing_before_it(app: Wakeful, db: Session) -> None:
    async with working(app) as worker, await psycopg.AsyncConnection.connect(app.database.dsn) as conn:
        said = counts(worker)
        id = await app.aenqueue("t", conn=conn)
        await at_rest(worker)
        assert counts(worker) == said, "it was woken before there was anything to see"
        await conn.commit()
        await comes_to(db, id, "completed")


async def test_a_rolled_back_enqueue_wakes_nobody(app: Wakeful) -> None:
    async with working(app) as worker, await psycopg.AsyncConnection.connect(app.database.dsn) as conn:
        said = counts(worker)
        await app.aenqueue("t", conn=conn)
        await conn.rollback()
        await at_rest(worker)
        assert counts(worker) == said


async def test_an_enqueue_at_serializable_isolation(app: Wakeful, db: Session) -> None:
    async with working(app), await psycopg.AsyncConnection.connect(app.database.dsn) as conn:
        await conn.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE)
        id = await app.aenqueue("t", conn=conn)
        await conn.commit()
        await comes_to(db, id, "completed")


async def test_a_queue_never_heard_of_before(app: Wakeful, db: Session) -> None:
    async with working(app):
        id = value(db, "enqueue", task="t", payload={}, queue="never heard of")
        assert (await comes_to(db, id, "completed"))["queue"] == "never heard of"


async def test_a_job_of_another_queue_costs_no_query(app: Wakeful, db: Session) -> None:
    async with working(app, queues="mine") as worker:
        said = counts(worker)
        value(db, "enqueue", task="t", payload={}, queue="not mine")
        await at_rest(worker)
        assert counts(worker) == said
        id = value(db, "enqueue", task="t", payload={}, queue="mine")
        await comes_to(db, id, "completed")


async def test_a_dead_letter_that_is_put_back(app: Wakeful, db: Session) -> None:
    @app.task(name="dies.once")
    async def dies_once(ctx: Context) -> None:
        if ctx.job.origin_id is None:
            raise Dead("not yet")

    async with working(app) as worker:
        first = await dies_once.aenqueue()
        await comes_to(db, first, "dead")
        await at_rest(worker)
        second: UUID = value(db, "requeue", id=first)
        assert (await comes_to(db, second, "completed"))["origin_id"] == first


async def test_a_retry_without_delay(app: Wakeful, db: Session) -> None:
    @app.task(name="twice", retry=Fixed(0))
    async def twice(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError
        return ctx.attempt

    async with working(app):
        id = await twice.aenqueue()
        assert (await comes_to(db, id, "completed"))["result"] == 2


async def test_a_retry_that_the_handler_asks_for_at_once(app: Wakeful, db: Session) -> None:
    @app.task(name="twice", retry=Fixed(3600))
    async def twice(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Retry(after=0)

    async with working(app):
        await comes_to(db, await twice.aenqueue(), "completed")


async def test_a_release(app: Wakeful, db: Session) -> None:
    """A caller outside the fleet gives back what it claimed; the start is not counted."""
    holder = UUID(int=1)
    id = value(db, "enqueue", task="t", payload={})
    [held] = call(db, "claim", worker_id=holder, tasks=["t"], lease="1 hour")
    async with working(app):
        call(db, "release", id=id, epoch=held["epoch"], worker_id=holder)
        assert (await comes_to(db, id, "completed"))["attempt"] == 1


@pytest.mark.parametrize(("kind", "name"), [("queue", "default"), ("task", "t")])
async def test_a_resume(app: Wakeful, db: Session, kind: str, name: str) -> None:
    call(db, f"pause_{kind}", name=name)
    async with working(app) as worker:
        id = value(db, "enqueue", task="t", payload={})
        await at_rest(worker)
        assert state(db, id) == "ready"
        call(db, f"resume_{kind}", name=name)
        assert (await comes_to(db, id, "completed"))["attempt"] == 1


@pytest.mark.parametrize("mode", ["replace", "debounce"])
async def test_a_twin_that_brings_a_job_forward(app: Wakeful, db: Session, mode: str) -> None:
    async with working(app) as worker:
        key = {"task": "t", "payload": {}, "dedup_key": "k"}
        id = value(db, "enqueue", **key, delay="1 hour")
        await at_rest(worker)
        assert value(db, "enqueue", **key, dedup=mode) == id
        await comes_to(db, id, "completed")


async def test_a_rerun_that_was_asked_for_while_the_job_ran(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        await go.wait()

    async with working(app) as worker:
        key = {"task": "waits", "payload": {}, "dedup_key": "k"}
        first = value(db, "enqueue", **key)
        await comes_to(db, first, "running")
        second = value(db, "enqueue", **key, dedup="rerun")
        await at_rest(worker)
        go.set()
        await comes_to(db, first, "completed")
        await comes_to(db, second, "completed")


async def test_retry_now(app: Wakeful, db: Session) -> None:
    async with working(app) as worker:
        id = value(db, "enqueue", task="t", payload={}, delay="1 hour")
        await at_rest(worker)
        assert value(db, "retry_now", id=id)
        await comes_to(db, id, "completed")


async def test_a_slot_that_comes_free_takes_what_waits(app: Wakeful, db: Session) -> None:
    go = [asyncio.Event(), asyncio.Event()]

    @app.task(name="waits")
    async def waits(number: int) -> None:
        await go[number].wait()

    async with working(app, concurrency=1) as worker:
        first, second = [await waits.aenqueue(number) for number in range(2)]
        await comes_to(db, first, "running")
        await at_rest(worker)
        assert state(db, second) == "ready"
        go[0].set()
        await comes_to(db, second, "running")
        go[1].set()
        await comes_to(db, second, "completed")


async def test_a_worker_with_no_slot_free_leaves_the_job_to_one_that_has(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        await go.wait()

    async with working(app, concurrency=1) as busy:
        held = await waits.aenqueue()
        await comes_to(db, held, "running")
        async with working(app, concurrency=1):
            said = counts(busy)
            await comes_to(db, await app.aenqueue("t"), "completed")
            assert counts(busy) == said, "the busy one was bothered"
        go.set()
        await comes_to(db, held, "completed")


async def test_jobs_that_are_there_when_the_worker_starts(app: Wakeful, db: Session) -> None:
    ids = [await app.aenqueue("t"), value(db, "enqueue", task="t", payload={}, queue="elsewhere")]
    async with working(app):
        await soon(lambda: all(report(db, id)["state"] == "completed" for id in ids))
