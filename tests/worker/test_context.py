"""What a handler is given: the job's identity, notes, checkpoints, leases and children."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from typing import Any
from uuid import UUID

import pytest

from tests.sessions import Session, query, scalar, value
from tests.worker.work import comes_to, report, soon, starting
from wakeful.app import Wakeful
from wakeful.run.context import Context, SyncContext
from wakeful.values.errors import StaleClaim
from wakeful.values.outcome import Dead
from wakeful.values.retry import Fixed
from wakeful.worker import duties


@pytest.mark.parametrize("given", ["order 7", None])
async def test_the_idempotency_key_is_the_same_over_attempts_and_requeues(
    app: Wakeful, db: Session, given: str | None
) -> None:
    keys: list[str] = []

    @app.task(name="t", retry=Fixed(0), max_attempts=2)
    async def t(ctx: Context) -> None:
        keys.append(ctx.idempotency_key)
        if ctx.job.origin_id is None:
            raise ValueError

    async with starting(app):
        first = await t.using(idempotency_key=given).aenqueue()
        await comes_to(db, first, "dead")
        second = value(db, "requeue", id=first)
        await comes_to(db, second, "completed")
        third = value(db, "requeue", id=second)
        await comes_to(db, third, "completed")
    assert keys == [given or str(first)] * 4


async def test_a_context_tells_the_job_its_attempt_and_its_epoch(app: Wakeful, db: Session) -> None:
    seen: list[tuple[UUID, int, int]] = []

    @app.task(name="t", retry=Fixed(0))
    async def t(ctx: Context) -> None:
        seen.append((ctx.job.id, ctx.attempt, ctx.epoch))
        if ctx.attempt == 1:
            raise ValueError

    async with starting(app):
        id = await t.using(metadata={"colour": "red"}, tenant="acme", created_by="me").aenqueue()
        await comes_to(db, id, "completed")
    assert seen == [(id, 1, 1), (id, 2, 2)]


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_children_inherit_the_correlation_and_name_their_parent(app: Wakeful, db: Session, kind: str) -> None:
    @app.task(name="child")
    async def child(how: str) -> None: ...

    @app.task(name="loop")
    async def on_loop(ctx: Context) -> None:
        await ctx.enqueue("child", {"how": "context"})
        await child.aenqueue("task")
        await app.aenqueue("child", {"how": "app"})

    @app.task(name="thread")
    def in_thread(ctx: SyncContext) -> None:
        ctx.enqueue("child", {"how": "context"})
        child.enqueue("task")
        app.enqueue("child", {"how": "app"})

    async with starting(app):
        correlation = UUID(int=42)
        parent = await app.tasks[kind].using(correlation_id=correlation).aenqueue()
        await comes_to(db, parent, "completed")
        children = query(db, "select * from wakeful.jobs where task = 'child'")
    assert {row["payload"]["how"] for row in children} == {"context", "task", "app"}
    assert {(row["correlation_id"], row["parent_id"]) for row in children} == {(correlation, parent)}


async def test_lines_of_the_jobs_logger_carry_its_ids(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @app.task(name="billing.charge")
    async def charge(ctx: Context) -> None:
        ctx.logger.info("charging", extra={"amount": 7})

    async with starting(app):
        id = await charge.aenqueue()
        await comes_to(db, id, "completed")
    [line] = [record for record in caplog.records if record.message == "charging"]
    assert line.name == "wakeful.task.billing.charge"
    told = {name: getattr(line, name) for name in ("job_id", "task", "attempt", "correlation_id", "amount")}
    assert told == {
        "job_id": str(id),
        "task": "billing.charge",
        "attempt": 1,
        "correlation_id": str(id),
        "amount": 7,
    }


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_progress_is_seen_while_the_job_runs_and_counters_add_up(app: Wakeful, db: Session, kind: str) -> None:
    go = threading.Event()

    @app.task(name="loop", retry=Fixed(0))
    async def on_loop(ctx: Context) -> None:
        note(ctx)
        await soon(go.is_set)
        finish(ctx)

    @app.task(name="thread", retry=Fixed(0))
    def in_thread(ctx: SyncContext) -> None:
        note(ctx)
        assert go.wait(60)
        finish(ctx)

    def note(ctx: Context | SyncContext) -> None:
        ctx.progress(50, "half way")
        ctx.count("rows", 3)

    def finish(ctx: Context | SyncContext) -> None:
        ctx.count("rows", 4)
        ctx.count("files")
        ctx.progress(100)
        if ctx.attempt == 1:
            raise ValueError

    async with starting(app):
        id = await app.aenqueue(kind)
        await soon(lambda: report(db, id)["progress"] == {"percent": 50, "message": "half way"})
        assert report(db, id)["counters"] == {"rows": 3}
        go.set()
        done = await comes_to(db, id, "completed")
    assert done["progress"] == {"percent": 100, "message": None}
    assert done["counters"] == {"rows": 14, "files": 2}


async def test_counting_in_a_thread_loses_and_doubles_nothing(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "NOTES_EVERY", 0.0)
    before = sys.getswitchinterval()

    @app.task(name="counting")
    def counting(ctx: SyncContext) -> None:
        for _ in range(30_000):
            ctx.count("n")

    # Threads take turns as often as can be.
    sys.setswitchinterval(1e-6)
    try:
        async with starting(app):
            done = await comes_to(db, await counting.aenqueue(), "completed")
    finally:
        sys.setswitchinterval(before)
    assert done["counters"] == {"n": 30_000}


async def test_a_note_that_cannot_be_stored_costs_neither_the_job_nor_the_worker(app: Wakeful, db: Session) -> None:
    @app.task(name="odd")
    async def odd(ctx: Context) -> None:
        ctx.count("n", float("nan"))
        ctx.count("big", 1e308)
        ctx.progress(float("inf"), "a\x00b\ud800")

    async with starting(app):
        for _ in range(2):
            await comes_to(db, await odd.aenqueue(), "completed")


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_checkpoint_is_there_in_the_next_attempt(app: Wakeful, db: Session, kind: str) -> None:
    seen: list[Any] = []

    @app.task(name="loop", retry=Fixed(0))
    async def on_loop(ctx: Context) -> None:
        seen.append(ctx.saved)
        if ctx.attempt < 3:
            await ctx.save({"page": ctx.attempt})
            raise ValueError

    @app.task(name="thread", retry=Fixed(0))
    def in_thread(ctx: SyncContext) -> None:
        seen.append(ctx.saved)
        if ctx.attempt < 3:
            ctx.save({"page": ctx.attempt})
            raise ValueError

    async with starting(app):
        await comes_to(db, await app.aenqueue(kind), "completed")
    assert seen == [None, {"page": 1}, {"page": 2}]


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_every_verb_of_a_lost_claim_is_refused(app: Wakeful, db: Session, kind: str) -> None:
    """Somebody took the job away while its handler ran."""
    taken, go, all_refused = threading.Event(), threading.Event(), threading.Event()

    @app.task(name="loop", max_attempts=1)
    async def on_loop(ctx: Context) -> None:
        taken.set()
        await soon(go.is_set)
        with pytest.raises(StaleClaim):
            await ctx.save(1)
        with pytest.raises(StaleClaim):
            await ctx.extend(60)
        with pytest.raises(StaleClaim):
            async with ctx.transaction() as conn:
                await conn.execute("create table public.never ()")
        all_refused.set()
        raise Dead("refused too")

    @app.task(name="thread", max_attempts=1)
    def in_thread(ctx: SyncContext) -> None:
        taken.set()
        assert go.wait(60)
        with pytest.raises(StaleClaim):
            ctx.save(1)
        with pytest.raises(StaleClaim):
            ctx.extend(60)
        with pytest.raises(StaleClaim), ctx.transaction() as conn:
            conn.execute("create table public.never ()")
        all_refused.set()
        raise Dead("refused too")

    async with starting(app) as worker:
        id = await app.aenqueue(kind)
        await soon(taken.is_set)
        db.execute("update wakeful.job set epoch = epoch + 1, worker_id = wakeful.new_id() where id = %s", [id])
        go.set()
        await soon(lambda: worker._shift is not None and worker._shift.counts["refused"] == 1)
        assert all_refused.is_set()
        assert report(db, id)["state"] == "running"
        assert scalar(db, "select to_regclass('public.never') is null")


async def test_a_job_that_extends_itself_lives_by_its_own_lease(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="t")
    async def t(ctx: Context) -> None:
        await ctx.extend(3600)
        await go.wait()

    async with starting(app):
        id = await t.aenqueue()
        await soon(lambda: scalar(db, "select lease_expires_at from wakeful.job where id = %s", id) is not None)
        left = "select extract(epoch from lease_expires_at - now()) from wakeful.job where id = %s"
        assert 3500 < scalar(db, left, id) <= 3600
        go.set()
        await comes_to(db, id, "completed")
