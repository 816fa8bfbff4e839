"""Effects that are written in the transaction that completes the job happen exactly once."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from tests.sessions import Session, query, scalar
from tests.worker.work import comes_to, heard, soon, starting
from wakeful.app import Wakeful
from wakeful.run.context import Context, SyncContext
from wakeful.testing import Database
from wakeful.values.retry import Fixed


@pytest.fixture(autouse=True)
def _effects(db: Session) -> None:
    db.execute("drop table if exists public.effect")
    db.execute("create table public.effect (job_id uuid not null, attempt integer not null)")


def effects(db: Session) -> int:
    return int(scalar(db, "select count(*) from public.effect"))


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_the_effect_and_the_completion_are_one_commit(app: Wakeful, db: Session, kind: str) -> None:
    states: list[Any] = []

    @app.task(name="loop")
    async def on_loop(ctx: Context) -> None:
        async with ctx.transaction(result={"rows": 1}) as conn:
            await conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            states.append((effects(db), scalar(db, "select state from wakeful.jobs")))
        states.append((effects(db), scalar(db, "select state from wakeful.jobs")))

    @app.task(name="thread")
    def in_thread(ctx: SyncContext) -> None:
        with ctx.transaction(result={"rows": 1}) as conn:
            conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            states.append((effects(db), scalar(db, "select state from wakeful.jobs")))
        states.append((effects(db), scalar(db, "select state from wakeful.jobs")))

    id = await app.aenqueue(kind)
    async with starting(app) as worker:
        await soon(lambda: len(states) == 2)
        assert (await comes_to(db, id, "completed"))["result"] == {"rows": 1}
        assert worker._shift is not None
        await soon(lambda: worker._shift is not None and worker._shift.summary.succeeded == 1)
        assert worker._shift.counts["refused"] == 0
    assert states == [(0, "running"), (1, "completed")]


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_an_error_inside_takes_the_effect_back_and_one_outside_changes_nothing(
    app: Wakeful, db: Session, kind: str
) -> None:
    @app.task(name="loop", retry=Fixed(0))
    async def on_loop(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            if ctx.attempt == 1:
                raise ValueError("inside")
        raise ValueError("outside")

    @app.task(name="thread", retry=Fixed(0))
    def in_thread(ctx: SyncContext) -> None:
        with ctx.transaction() as conn:
            conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            if ctx.attempt == 1:
                raise ValueError("inside")
        raise ValueError("outside")

    async with starting(app):
        done = await comes_to(db, await app.aenqueue(kind), "completed")
    assert [entry["message"] for entry in done["attempts"]] == ["inside"]
    assert query(db, "select attempt from public.effect") == [{"attempt": 2}]


async def test_a_lost_lease_takes_the_effect_back(app: Wakeful, db: Session) -> None:
    @app.task(name="t", retry=Fixed(0))
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            if ctx.epoch == 1:
                # Its lease lapses and somebody, who may be this very worker, takes the job.
                db.execute("update wakeful.job set lease_expires_at = now() where id = %s", [ctx.job.id])
                db.execute("select wakeful.rescue()")

    async with starting(app):
        done = await comes_to(db, await t.aenqueue(), "completed")
    assert done["epoch"] == 2
    assert effects(db) == 1


async def test_a_commit_left_unanswered_that_was_taken_is_not_repeated(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection dies after the server has committed and before the driver has heard of it."""
    starts = 0
    commit = psycopg.AsyncTransaction.__aexit__

    async def cut_after_commit(self: Any, *error: Any) -> None:
        await commit(self, *error)
        monkeypatch.undo()
        self.connection.pgconn.finish()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    @app.task(name="t", retry=Fixed(0))
    async def t(ctx: Context) -> None:
        nonlocal starts
        starts += 1
        async with ctx.transaction() as conn:
            await conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            monkeypatch.setattr(psycopg.AsyncTransaction, "__aexit__", cut_after_commit)

    async with starting(app) as worker:
        done = await comes_to(db, await t.aenqueue(), "completed")
        await soon(lambda: worker._shift is not None and worker._shift.summary.succeeded == 1)
    assert (done["attempt"], starts, effects(db)) == (1, 1, 1)


async def test_a_connection_that_dies_before_the_commit_fails_the_attempt(app: Wakeful, db: Session) -> None:
    @app.task(name="t", retry=Fixed(0))
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            if ctx.attempt == 1:
                db.execute("select pg_terminate_backend(%s, 10000)", [conn.info.backend_pid])

    async with starting(app):
        done = await comes_to(db, await t.aenqueue(), "completed")
    assert done["attempt"] == 2
    assert query(db, "select attempt from public.effect") == [{"attempt": 2}]


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_job_that_completes_itself_in_the_users_own_transaction(
    app: Wakeful, database: Database, db: Session, kind: str
) -> None:
    @app.task(name="loop")
    async def on_loop(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(database.dsn) as conn:
            await conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            await ctx.complete({"by": "hand"}, conn=conn)

    @app.task(name="thread")
    def in_thread(ctx: SyncContext) -> None:
        with psycopg.connect(database.dsn) as conn:
            conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            ctx.complete({"by": "hand"}, conn=conn)

    id = await app.aenqueue(kind)
    summary = await app.worker().arun_once()
    assert scalar(db, "select result from wakeful.jobs where id = %s", id) == {"by": "hand"}
    assert (summary.processed, summary.succeeded, summary.failed) == (1, 1, 0)
    assert effects(db) == 1


async def test_a_transaction_of_the_user_that_rolls_back_leaves_the_job_to_be_retried(
    app: Wakeful, database: Database, db: Session
) -> None:
    closed = asyncio.Event()

    @app.task(name="t", retry=Fixed(0))
    async def t(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(database.dsn) as conn:
            await conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
            await ctx.complete(conn=conn)
            if ctx.attempt == 1:
                await conn.rollback()
        if ctx.attempt == 2:
            closed.set()

    async with starting(app):
        done = await comes_to(db, await t.aenqueue(), "completed")
        await heard(closed)
    assert [entry["code"] for entry in done["attempts"]] == ["not_committed"]
    assert query(db, "select attempt from public.effect") == [{"attempt": 2}]


async def test_completing_twice_does_not_leave_the_job_running(app: Wakeful, database: Database, db: Session) -> None:
    """The second one is refused and spoils the transaction: nothing was committed, and the job starts again."""
    closed = asyncio.Event()

    @app.task(name="t", retry=Fixed(0))
    async def t(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(database.dsn) as conn:
            await ctx.complete(conn=conn)
            if ctx.attempt == 1:
                await ctx.complete(conn=conn)
        closed.set()

    async with starting(app):
        assert (await comes_to(db, await t.aenqueue(), "completed"))["attempt"] == 2
        await heard(closed)


async def test_more_transactions_than_pooled_connections(database: Database, db: Session) -> None:
    async with Wakeful(database.dsn, pool_size=2) as app:

        @app.task(name="t")
        async def t(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await conn.execute("insert into public.effect values (%s, %s)", [ctx.job.id, ctx.attempt])
                await asyncio.sleep(0.01)

        await t.aenqueue_many([{} for _ in range(50)])
        async with starting(app, concurrency=20):
            await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 50)
    assert query(db, "select job_id from public.effect group by job_id having count(*) > 1") == []
    assert effects(db) == 50
