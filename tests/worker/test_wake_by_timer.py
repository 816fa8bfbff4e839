"""What falls due is started at its moment by a timer: the pulse is a minute away, and nobody polls."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.sessions import Session, call, query, scalar, session, value
from tests.worker.work import LONG_POLL, at_rest, comes_to, counts, heard, shift_of, soon, starting, state, working
from wakeful.app import Wakeful
from wakeful.run.context import Context
from wakeful.testing import Database
from wakeful.values.outcome import Retry, Snooze
from wakeful.values.retry import Fixed
from wakeful.worker import Worker
from wakeful.worker.loop import TEND_EVERY


@pytest.fixture(autouse=True)
def _tasks(app: Wakeful) -> None:
    @app.task(name="t")
    async def t() -> None: ...


async def test_a_scheduled_job_starts_at_its_moment_and_never_early(app: Wakeful, db: Session) -> None:
    async with working(app) as worker:
        ids = [value(db, "enqueue", task="t", payload={}, delay=timedelta(seconds=0.7 + 0.1 * n)) for n in range(5)]
        await at_rest(worker)
        said = counts(worker)
        for id in ids:
            done = await comes_to(db, id, "completed")
            assert timedelta(0) <= lateness(done) < timedelta(seconds=5)
        # One claim finds each; a few more would be polling.
        assert counts(worker)["claims"] - said["claims"] <= 2 * len(ids)


async def test_a_slow_commit_of_the_call_that_tells_what_is_due_makes_nothing_late(
    app: Wakeful, db: Session, database: Database
) -> None:
    @app.task(name="slow")
    async def slow() -> None: ...

    db.execute(
        "create function slow() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock(7); return null; end';"
        "create constraint trigger slow after delete on wakeful.job deferrable initially deferred"
        " for each row when (old.task = 'slow') execute function slow()"
    )
    # Before the worker starts, so that it knows of it by the table alone.
    scheduled = value(db, "enqueue", task="t", payload={}, delay="4 seconds")
    async with working(app):
        with session(database.dsn) as holder, holder.transaction():
            holder.execute("select pg_advisory_xact_lock(7)")
            value(db, "enqueue", task="slow", payload={})
            due = "select run_at <= wakeful.now() from wakeful.job where id = %s"
            await soon(lambda: scalar(db, due, scheduled))
        # Told to wait from the answer on, it would start three seconds from here.
        assert lateness(await comes_to(db, scheduled, "completed")) < timedelta(seconds=2)


async def test_what_is_due_when_nobody_sleeps_yet_is_found_by_the_first_scan(app: Wakeful, db: Session) -> None:
    id = value(db, "enqueue", task="t", payload={}, delay=timedelta(seconds=1))
    async with working(app):
        assert lateness(await comes_to(db, id, "completed")) >= timedelta(0)


async def test_a_later_enqueue_that_is_due_sooner_moves_the_timer(app: Wakeful, db: Session) -> None:
    async with working(app) as worker:
        later = value(db, "enqueue", task="t", payload={}, delay="1 hour")
        await at_rest(worker)
        sooner = value(db, "enqueue", task="t", payload={}, delay="500 ms")
        assert lateness(await comes_to(db, sooner, "completed")) >= timedelta(0)
        assert state(db, later) == "scheduled"


async def test_a_retry_after_a_short_delay(app: Wakeful, db: Session) -> None:
    @app.task(name="twice", retry=Fixed(0.5))
    async def twice(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError

    async with working(app):
        done = await comes_to(db, await twice.aenqueue(), "completed")
        [failed] = done["attempts"]
        assert done["started_at"] - moment(failed["ended_at"]) >= timedelta(seconds=0.5)


async def test_a_retry_after_the_time_that_the_handler_asks_for(app: Wakeful, db: Session) -> None:
    @app.task(name="twice", retry=Fixed(3600))
    async def twice(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Retry(after=0.3)

    async with working(app):
        assert (await comes_to(db, await twice.aenqueue(), "completed"))["attempt"] == 2


async def test_a_snooze_which_is_not_charged(app: Wakeful, db: Session) -> None:
    @app.task(name="sleepy", max_attempts=1)
    async def sleepy(ctx: Context) -> Snooze | None:
        return Snooze(0.3, "too early") if ctx.epoch == 1 else None

    async with working(app):
        done = await comes_to(db, await sleepy.aenqueue(), "completed")
        assert (done["attempt"], done["epoch"]) == (1, 2)
        assert done["attempts"][0]["outcome"] == "snoozed"


async def test_a_lease_of_the_jobs_own_that_lapses(app: Wakeful, db: Session) -> None:
    id = value(db, "enqueue", task="t", payload={})
    call(db, "claim", worker_id=id, tasks=["t"], lease="1 second")
    lapses = scalar(db, "select lease_expires_at from wakeful.jobs where id = %s", id)
    async with working(app):
        done = await comes_to(db, id, "completed")
        assert timedelta(0) <= done["started_at"] - lapses < timedelta(seconds=5)


async def test_the_lease_of_a_worker_that_has_died(app: Wakeful, db: Session) -> None:
    """Somebody else's worker took the job and was never seen again."""
    id = value(db, "enqueue", task="t", payload={})
    dead = die_holding(db, lease="1 second")
    lapses = scalar(db, "select lease_expires_at from wakeful.worker where id = %s", dead)
    async with working(app):
        done = await comes_to(db, id, "completed")
        assert timedelta(0) <= done["started_at"] - lapses < timedelta(seconds=5)
        assert not query(db, "select from wakeful.worker where id = %s", dead)


async def test_a_worker_that_dies_while_another_sleeps(app: Wakeful, db: Session) -> None:
    """The sleeper's timer was set before the other worker came: its own beat makes it look again in time."""
    async with working(app, lease=2):
        call(db, "pause_task", name="t")
        id = value(db, "enqueue", task="t", payload={})
        dead = die_holding(db, lease="2 seconds", id=id)
        lapses = scalar(db, "select lease_expires_at from wakeful.worker where id = %s", dead)
        call(db, "resume_task", name="t")
        done = await comes_to(db, id, "completed")
        assert timedelta(0) <= done["started_at"] - lapses < timedelta(seconds=LONG_POLL / 4)


async def test_a_job_that_falls_due_while_every_slot_is_taken_starts_elsewhere(app: Wakeful, db: Session) -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        begun.set()
        await go.wait()

    async with starting(app, concurrency=1):
        held = await waits.aenqueue()
        await heard(begun)
        due = value(db, "enqueue", task="t", payload={}, delay="700 ms")
        async with working(app, concurrency=1):
            assert lateness(await comes_to(db, due, "completed")) >= timedelta(0)
        go.set()
        await comes_to(db, held, "completed")


async def test_a_job_that_fell_due_unannounced_while_the_worker_was_busy(app: Wakeful, db: Session) -> None:
    """Nobody slept when it was enqueued, so nobody was poked; the last look before sleep must see it."""

    @app.task(name="parent")
    async def parent(ctx: Context) -> None:
        id = await ctx.enqueue("t", delay=0.05)
        await soon(lambda: scalar(db, "select run_at < clock_timestamp() from wakeful.jobs where id = %s", id))

    async with working(app, concurrency=1) as worker:
        # Long enough ago that the claim of the parent tends, and so the one right after it does not.
        await soon(lambda: seconds_since_tended(worker) > TEND_EVERY)
        id = await parent.aenqueue()
        await comes_to(db, id, "completed")
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 2)


async def test_a_thousand_jobs_due_at_once_are_all_promoted(app: Wakeful, db: Session) -> None:
    db.execute("select wakeful.enqueue('t', '{}', delay => interval '500 ms') from generate_series(1, 2500)")
    async with working(app):
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 2500)


def seconds_since_tended(worker: Worker) -> float:
    return asyncio.get_running_loop().time() - shift_of(worker)._loop._tended_at


def lateness(row: dict[str, Any]) -> timedelta:
    """How long after its moment a job was started."""
    late: timedelta = row["started_at"] - row["run_at"]
    return late


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def die_holding(db: Session, *, lease: str, id: Any = None) -> Any:
    """A worker that registers, takes one job, and is never heard of again; its id."""
    dead = value(db, "new_id")
    arguments = {"name": "dead", "queues": None, "tasks": ["t"], "slots": 1, "lease": lease}
    call(db, "register_1", worker_id=dead, **arguments)
    db.execute(
        "update wakeful.job set state = 2, attempt = attempt + 1, epoch = epoch + 1, worker_id = %s,"
        " started_at = wakeful.now() where state = 1 and (id = %s or %s::uuid is null)",
        [dead, id, id],
    )
    return dead
