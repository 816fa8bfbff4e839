"""The server has taken a call, and the link breaks before the answer: nothing is lost, and nothing runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.sessions import Session, scalar
from tests.worker.proxy import Link, link_to
from tests.worker.work import all_over, comes_to, counts, heard, report, shift_of, soon, starting, working
from wakeful.app import Wakeful
from wakeful.run.context import Context
from wakeful.testing import Database
from wakeful.values.retry import Fixed


@pytest.fixture
async def link(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Link]:
    # A prepared statement is called by a number: then no call would have its text in it.
    monkeypatch.setenv("WAKEFUL_PREPARE", "off")
    # The listener has a line of its own, so that a cut means the loop's.
    monkeypatch.setenv("WAKEFUL_LISTEN_DSN", database.dsn)
    async with link_to(database.dsn) as made:
        yield made


@pytest.fixture
async def app(link: Link) -> AsyncIterator[Wakeful]:
    async with Wakeful(link.dsn) as made:
        yield made


@pytest.mark.parametrize("call", ["wakeful.claim_poked_1(", "wakeful.claim_1("])
async def test_a_claim(app: Wakeful, link: Link, db: Session, call: str) -> None:
    """That of the job which the poke names, and that of the rest."""
    started: list[int] = []

    @app.task(name="t")
    async def t(number: int) -> None:
        started.append(number)

    async with working(app):
        link.lose_answer_to(call)
        db.execute("select wakeful.enqueue('t', jsonb_build_object('number', n)) from generate_series(1, 3) n")
        await heard(link.cut)
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 3)
    assert sorted(started) == [1, 2, 3]
    assert scalar(db, "select max(attempt) from wakeful.finished_job") == 1


async def test_the_confirmation_of_a_job_that_was_handed_over(app: Wakeful, link: Link, db: Session) -> None:
    """It runs on, is confirmed once more, and is nobody else's when the five seconds are over."""
    started: list[int] = []
    go = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        started.append(1)
        await go.wait()

    async with working(app):
        link.lose_answer_to("wakeful.accept_1(")
        id = await t.aenqueue()
        await heard(link.cut)
        await soon(lambda: scalar(db, "select lease_expires_at is null from wakeful.job where id = %s", id))
        go.set()
        row = await comes_to(db, id, "completed")
    assert (started, row["attempt"], row["epoch"]) == ([1], 1, 1)


async def test_a_turn(app: Wakeful, link: Link, db: Session, caplog: pytest.LogCaptureFixture) -> None:
    """One commit had completed a job and claimed others: the completion is repeated, the others are given back."""
    started: list[int] = []

    @app.task(name="t")
    async def t(number: int) -> None:
        started.append(number)
        if number == 1:
            link.lose_answer_to("wakeful.claim_1(")

    async with working(app, concurrency=1) as worker:
        db.execute("select wakeful.enqueue('t', jsonb_build_object('number', n)) from generate_series(1, 5) n")
        await heard(link.cut)
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 5)
        assert counts(worker)["refused"] == 0
    assert "claim_given_back" in caplog.text
    assert sorted(started) == [1, 2, 3, 4, 5]
    assert scalar(db, "select max(attempt) from wakeful.finished_job") == 1


async def test_a_pulse(app: Wakeful, link: Link, db: Session) -> None:
    started: list[int] = []

    @app.task(name="t")
    async def t() -> None:
        started.append(1)

    async with working(app) as worker:
        link.lose_answer_to("wakeful.pulse_1(")
        db.execute("select wakeful.enqueue('t', '{}', poke => false)")
        shift_of(worker)._loop.pulse_soon()
        await heard(link.cut)
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 1)
    assert started == [1]


@pytest.mark.parametrize("outcome", ["retry", "dead", "complete"])
async def test_a_settlement(app: Wakeful, link: Link, db: Session, outcome: str) -> None:
    go = asyncio.Event()

    @app.task(name="other")
    async def other() -> None:
        await go.wait()

    @app.task(name="t", retry=Fixed(3600), max_attempts=1 if outcome == "dead" else 2)
    async def t() -> None:
        link.lose_answer_to("wakeful.complete_1(" if outcome == "complete" else "wakeful.settle_1(")
        if outcome != "complete":
            raise ValueError
        # So long that no claim takes its settlement along.
        await asyncio.sleep(0.2)

    async with working(app, concurrency=3) as worker:
        id = await t.aenqueue()
        await heard(link.cut)
        state = {"retry": "scheduled", "dead": "dead", "complete": "completed"}[outcome]
        row = await comes_to(db, id, state)
        # The worker is at work again, so what it had to repeat is behind it.
        held = await other.aenqueue()
        await comes_to(db, held, "running")
        go.set()
        await comes_to(db, held, "completed")
        assert counts(worker)["refused"] == 0
        assert len(report(db, id)["attempts"] or ()) == (0 if outcome == "complete" else 1)
        assert row["attempt"] == 1


async def test_jobs_that_run_when_an_answer_is_lost_run_on(app: Wakeful, link: Link, db: Session) -> None:
    """What is given back is what nobody here knows of, and not what is being worked on."""
    go = asyncio.Event()
    started: list[int] = []

    @app.task(name="waits")
    async def waits(ctx: Context, number: int) -> None:
        started.append(number)
        await go.wait()

    async with working(app, concurrency=4):
        held = [await waits.aenqueue(number) for number in range(2)]
        await soon(lambda: len(started) == 2)
        link.lose_answer_to("wakeful.claim_1(")
        lost = await waits.aenqueue(2)
        await heard(link.cut)
        await soon(lambda: len(started) == 3)
        go.set()
        assert await all_over(db, [*held, lost]) == {"completed": 3}
    assert started == [0, 1, 2]
    assert [report(db, id)["epoch"] for id in held] == [1, 1]


async def test_handlers_end_before_the_lease_when_nothing_is_answered_any_more(
    app: Wakeful, link: Link, database: Database, db: Session
) -> None:
    """The link neither passes anything on nor breaks: both the loop's call and the beat hang."""
    told, began = asyncio.Event(), asyncio.Event()
    left: list[float] = []

    @app.task(name="t")
    async def t(ctx: Context) -> None:
        if ctx.epoch > 1:
            return
        began.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            told.set()
            lease = "select extract(epoch from lease_expires_at - now()) from wakeful.worker where id = %s"
            left.append(float(scalar(db, lease, ctx.job.worker_id)))
            raise

    async with starting(app, lease=2, poll_interval=0.5) as worker:
        id = await t.aenqueue()
        await heard(began)
        before = shift_of(worker).worker_id
        link.open.clear()
        await heard(told)
        assert left[0] > 0, "others could have had the job already"
        async with Wakeful(database.dsn) as elsewhere:
            elsewhere.task(name="t")(t.function)
            async with starting(elsewhere):
                assert (await comes_to(db, id, "completed"))["epoch"] == 2
        link.open.set()
        await soon(lambda: shift_of(worker).worker_id != before)


async def test_a_worker_whose_calls_are_never_answered_still_ends(
    app: Wakeful, link: Link, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    worker = app.worker(poll_interval=0.2)
    running = asyncio.create_task(worker.arun())
    try:
        await comes_to(db, await t.aenqueue(), "completed")
        link.open.clear()
        await asyncio.sleep(0.4)
        line = shift_of(worker)._line
        worker.stop()
        worker.stop()
        async with asyncio.timeout(30):
            await running
    finally:
        link.open.set()
        running.cancel()
    assert "leave_failed" in caplog.text
    assert line._conn is None
