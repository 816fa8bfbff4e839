"""Stopping: finish what runs, give back the rest uncharged, exit 0; also when the database is gone."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import psycopg
import pytest

from tests.sessions import Session, call, query, scalar, value
from tests.worker.processes import Fleet, Journal, until
from tests.worker.work import comes_to, heard, report, soon, starting
from wakeful.app import Wakeful
from wakeful.run.context import Context, SyncContext

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


@SIGNALS
@pytest.mark.parametrize("task", ["waits", "waits_in_thread"])
def test_what_runs_is_finished_and_nothing_else_is_started(
    fleet: Fleet, journal: Journal, db: Session, tmp_path: Path, number: signal.Signals, task: str
) -> None:
    worker = fleet.start(concurrency=1, shutdown_timeout=60).started()
    running = value(db, "enqueue", task=task, payload={"path": str(tmp_path / "go")})
    until(lambda: journal.lines("start"))
    waiting = value(db, "enqueue", task="quick", payload={})
    worker.signal(number)
    until(lambda: "worker_stopping" in worker.log)
    (tmp_path / "go").touch()
    assert worker.ends() == 0
    assert '{"processed": 1, "succeeded": 1, "failed": 0}' in worker.log
    assert (report(db, running)["state"], report(db, waiting)["state"]) == ("completed", "ready")
    assert len(journal.lines("start")) == 1
    assert not query(db, "select from wakeful.worker")
    assert not query(db, "select from wakeful.sleeper")


@pytest.mark.parametrize("task", ["waits", "waits_in_thread", "ignores", "ignores_in_thread"])
def test_what_takes_too_long_is_told_and_given_back_uncharged(
    fleet: Fleet, journal: Journal, db: Session, tmp_path: Path, task: str
) -> None:
    worker = fleet.start(concurrency=1, shutdown_timeout=0.5).started()
    payload = {"path": str(tmp_path / "never")} if task.startswith("waits") else {}
    id = value(db, "enqueue", task=task, payload=payload)
    until(lambda: journal.lines("start"))
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0
    row = report(db, id)
    assert (row["state"], row["attempt"]) == ("ready", 0)
    assert row["attempts"][0]["outcome"] == "released"
    if task != "ignores_in_thread":
        assert journal.lines("told")[0]["cancelled"] is True


def test_the_second_signal_stops_at_once(fleet: Fleet, journal: Journal, db: Session) -> None:
    worker = fleet.start(concurrency=1, shutdown_timeout=3600).started()
    id = value(db, "enqueue", task="lasts", payload={"seconds": 3600})
    until(lambda: journal.lines("start"))
    worker.signal(signal.SIGTERM)
    until(lambda: "worker_stopping" in worker.log)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0
    assert (report(db, id)["state"], report(db, id)["attempt"]) == ("ready", 0)


def test_a_signal_that_comes_while_it_starts_is_not_forgotten(fleet: Fleet, db: Session) -> None:
    """The list of workers is locked: it hangs while it registers."""
    with psycopg.connect(db.info.dsn, password=db.info.password) as holder:
        holder.execute("lock table wakeful.worker")
        worker = fleet.start(concurrency=1)
        until(
            lambda: scalar(
                db, "select count(*) from pg_locks where relation = 'wakeful.worker'::regclass and not granted"
            )
        )
        worker.signal(signal.SIGTERM)
    assert worker.ends() == 0


async def test_one_that_is_stopped_gives_back_what_it_claims_in_that_very_moment(app: Wakeful, db: Session) -> None:
    started: list[int] = []

    @app.task(name="t")
    async def t() -> None:
        started.append(1)

    worker = app.worker()
    running = asyncio.create_task(worker.arun())
    await soon(lambda: worker._shift is not None and worker._shift.counts["pulses"] >= 2)
    async with await psycopg.AsyncConnection.connect(app.database.dsn) as holder:
        # Its next claim waits for this lock.
        await holder.execute("select from wakeful.worker for update")
        id = value(db, "enqueue", task="t", payload={})
        await soon(lambda: scalar(db, "select count(*) from pg_locks where not granted"))
        worker.stop()
    await running
    assert (report(db, id)["state"], report(db, id)["attempt"], started) == ("ready", 0, [])


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_worker_that_is_cancelled_tells_its_handlers_and_gives_back(
    app: Wakeful, db: Session, kind: str
) -> None:
    began, told = asyncio.Event(), asyncio.Event()
    clock = asyncio.get_running_loop()

    @app.task(name="loop")
    async def on_loop(ctx: Context) -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            assert ctx.cancelled
            told.set()

    @app.task(name="thread")
    def in_thread(ctx: SyncContext) -> None:
        clock.call_soon_threadsafe(began.set)
        assert ctx.wait(60)
        clock.call_soon_threadsafe(told.set)

    running = asyncio.create_task(app.worker().arun())
    id = await app.aenqueue(kind)
    await heard(began)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await heard(told)
    assert (report(db, id)["state"], report(db, id)["attempt"]) == ("ready", 0)
    assert not query(db, "select from wakeful.worker")


async def test_what_is_given_back_starts_elsewhere_at_once(app: Wakeful, db: Session) -> None:
    first = asyncio.Event()

    @app.task(name="t")
    async def t(ctx: Context) -> int:
        if ctx.epoch == 1:
            first.set()
            await asyncio.sleep(3600)
        return ctx.epoch

    async with starting(app, concurrency=1) as leaving:
        id = await t.aenqueue()
        await heard(first)
        async with starting(app, concurrency=1):
            leaving.stop()
            leaving.stop()
            done = await comes_to(db, id, "completed")
            assert (done["result"], done["attempt"]) == (2, 1)


def test_a_paused_queue_stays_paused_for_a_worker_that_starts_later(
    fleet: Fleet, journal: Journal, db: Session
) -> None:
    call(db, "pause_queue", name="default")
    paused = value(db, "enqueue", task="quick", payload={})
    fleet.start().started()
    open_one = value(db, "enqueue", task="quick", payload={}, queue="open")
    until(lambda: report(db, open_one)["state"] == "completed")
    assert report(db, paused)["state"] == "ready"
    call(db, "resume_queue", name="default")
    began = time.monotonic()
    until(lambda: report(db, paused)["state"] == "completed")
    assert time.monotonic() - began < 30
    assert journal.starts() == {str(open_one): 1, str(paused): 1}
