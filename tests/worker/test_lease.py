"""The worker's lease covers its jobs, is beaten from a thread, and is given up before it is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.sessions import Session, query, scalar
from tests.worker.work import comes_to, counts, heard, shift_of, soon, starting, working
from wakeful.app import Wakeful
from wakeful.run.context import Context

# Long enough for a beat to be late on a busy machine: the thread has a quarter of it for that.
LEASE_SECONDS = 2.0


async def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_its_lease(app: Wakeful, db: Session) -> None:
    @app.task(name="blocks")
    async def blocks(ctx: Context) -> int:
        time.sleep(3 * LEASE_SECONDS)
        return ctx.epoch

    async with starting(app, lease=LEASE_SECONDS) as worker:
        before = shift_of(worker).worker_id
        done = await comes_to(db, await blocks.aenqueue(), "completed")
        assert (done["result"], done["attempt"]) == (1, 1)
        assert shift_of(worker).worker_id == before
        assert counts(worker)["refused"] == 0


async def test_a_worker_whose_lease_was_lost_tells_its_handlers_and_begins_anew(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    told, began = asyncio.Event(), asyncio.Event()

    @app.task(name="t")
    async def t(ctx: Context) -> int:
        if ctx.epoch == 1:
            began.set()
            try:
                await asyncio.sleep(3600)
            finally:
                assert ctx.cancelled
                told.set()
        return ctx.epoch

    async with working(app, lease=LEASE_SECONDS) as worker:
        id = await t.aenqueue()
        await heard(began)
        before = shift_of(worker).worker_id
        # As after a pause of the whole process: the lease lapses, and somebody rescues the job.
        db.execute("update wakeful.worker set lease_expires_at = now() - interval '1 second'")
        db.execute("select wakeful.rescue()")
        await heard(told)
        assert (await comes_to(db, id, "completed"))["result"] == 2
        assert shift_of(worker).worker_id != before
        [listed] = query(db, "select id from wakeful.worker")
        assert listed["id"] == shift_of(worker).worker_id
    assert "lease_lost" in caplog.text


async def test_after_a_new_beginning_pokes_still_arrive(app: Wakeful, db: Session) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    async with working(app, lease=LEASE_SECONDS) as worker:
        before = shift_of(worker).worker_id
        db.execute("update wakeful.worker set lease_expires_at = now() - interval '1 second'")
        await soon(lambda: shift_of(worker).worker_id != before)
        await soon(
            lambda: scalar(db, "select count(*) from wakeful.sleeper where worker_id = %s", shift_of(worker).worker_id)
        )
        for _ in range(3):
            await comes_to(db, await t.aenqueue(), "completed")


async def test_the_leases_of_an_idle_worker_are_renewed(app: Wakeful, db: Session) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    async with working(app, lease=LEASE_SECONDS) as worker:
        before, began = shift_of(worker).worker_id, time.monotonic()
        await soon(lambda: time.monotonic() - began > 2.5 * LEASE_SECONDS)
        assert shift_of(worker).worker_id == before
        assert scalar(db, "select alive from wakeful.workers")
