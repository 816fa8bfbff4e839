"""Cancelling a running job reaches its handler: within a second with NOTIFY, else at the next pulse."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.sessions import Session, value
from tests.worker.work import comes_to, heard, report, shift_of, soon, starting, working
from wakeful.app import Wakeful
from wakeful.run.context import Context, SyncContext
from wakeful.testing import Database


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_running_job_is_told_at_once(app: Wakeful, db: Session, kind: str) -> None:
    began, told = threading.Event(), threading.Event()

    @app.task(name="loop")
    async def on_loop() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            told.set()

    @app.task(name="thread")
    def in_thread(ctx: SyncContext) -> None:
        began.set()
        assert ctx.wait(60)
        assert ctx.cancelled
        told.set()

    async with working(app):
        id = await app.aenqueue(kind)
        await soon(began.is_set)
        assert value(db, "cancel", id=id, reason="changed my mind") == "requested"
        await soon(told.is_set)
        assert (await comes_to(db, id, "cancelled"))["cancel_reason"] == "changed my mind"


async def test_without_notify_it_is_told_at_the_next_pulse(database: Database, db: Session) -> None:
    async with Wakeful(database.dsn, notify=False) as app:

        @app.task(name="t")
        async def t() -> None:
            await asyncio.sleep(3600)

        async with starting(app, poll_interval=0.5):
            id = await t.aenqueue()
            await comes_to(db, id, "running")
            value(db, "cancel", id=id)
            await comes_to(db, id, "cancelled")


async def test_a_handler_that_finishes_all_the_same_has_its_outcome(app: Wakeful, db: Session) -> None:
    """A cancellation never overwrites an outcome."""
    began = asyncio.Event()

    @app.task(name="t")
    async def t(ctx: Context) -> str:
        began.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            assert ctx.cancelled
        return "done nevertheless"

    async with working(app):
        id = await t.aenqueue()
        await heard(began)
        value(db, "cancel", id=id)
        assert (await comes_to(db, id, "completed"))["result"] == "done nevertheless"


async def test_a_cancelled_job_that_fails_is_not_retried(app: Wakeful, db: Session) -> None:
    began = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise ValueError("while cleaning up") from None

    async with working(app):
        id = await t.aenqueue()
        await heard(began)
        value(db, "cancel", id=id)
        assert (await comes_to(db, id, "cancelled"))["attempts"][0]["message"] == "while cleaning up"


async def test_the_others_of_the_worker_run_on(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        await go.wait()

    async with working(app):
        ids = [await t.aenqueue() for _ in range(3)]
        for id in ids:
            await comes_to(db, id, "running")
        value(db, "cancel", id=ids[1])
        await comes_to(db, ids[1], "cancelled")
        assert [report(db, id)["state"] for id in (ids[0], ids[2])] == ["running"] * 2
        go.set()
        for id in (ids[0], ids[2]):
            await comes_to(db, id, "completed")


async def test_a_job_that_is_held_ready_never_starts(app: Wakeful, db: Session) -> None:
    """It is claimed already, and waits for a slot behind the one that runs."""
    go = asyncio.Event()
    started: list[int] = []

    @app.task(name="quick")
    async def quick() -> None: ...

    @app.task(name="slow")
    async def slow(number: int) -> None:
        started.append(number)
        await go.wait()

    await quick.aenqueue_many([{} for _ in range(500)])
    ids = await slow.aenqueue_many([{"number": number} for number in range(6)])
    async with starting(app, concurrency=2):
        await soon(lambda: started == [0, 1])
        await comes_to(db, ids[3], "running")
        assert value(db, "cancel", id=ids[3]) == "requested"
        await comes_to(db, ids[3], "cancelled")
        go.set()
        await comes_to(db, ids[5], "completed")
    assert sorted(started) == [0, 1, 2, 4, 5]


async def test_a_job_is_cancelled_while_its_worker_is_being_recycled(app: Wakeful, db: Session) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    @app.task(name="long")
    async def long() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.set()
            raise

    @app.task(name="quick")
    async def quick() -> None: ...

    id = await long.aenqueue()
    async with starting(app, concurrency=2, max_jobs=1) as worker:
        await started.wait()
        await comes_to(db, await quick.aenqueue(), "completed")
        await soon(lambda: shift_of(worker)._loop.stopping)
        assert value(db, "cancel", id=id) == "requested"
        async with asyncio.timeout(10):
            await told.wait()
        await comes_to(db, id, "cancelled")
