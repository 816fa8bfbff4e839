"""Settlements are written as sets, through the fence; one bad row never blocks the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from tests.sessions import Session, query, scalar
from tests.worker.work import all_over, comes_to, counts, heard, soon, starting, working
from wakeful.app import Wakeful
from wakeful.payload import encode_result
from wakeful.run import attempt, failure
from wakeful.run.context import Context
from wakeful.values.outcome import AttemptError
from wakeful.values.retry import Fixed


async def test_of_ten_thousand_jobs_the_one_whose_result_cannot_be_stored_is_dead(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result passes every check here, and is refused by the server."""
    poison = '"\\u0000"'
    monkeypatch.setattr(attempt, "encode_result", lambda value: poison if value == "poison" else encode_result(value))

    @app.task(name="t")
    async def t(number: int) -> object:
        return "poison" if number == 7777 else number

    ids = await t.aenqueue_many([{"number": number} for number in range(10_000)])
    async with starting(app, concurrency=100) as worker:
        assert await all_over(db, ids, 90) == {"completed": 9_999, "dead": 1}
        assert counts(worker)["unstorable"] == 1
        assert counts(worker)["refused"] == 0
    [dead] = query(db, "select id, last_error_code, attempt from wakeful.jobs where state = 'dead'")
    assert dead == {"id": ids[7777], "last_error_code": "unsettleable", "attempt": 1}
    assert scalar(db, "select max(attempt) from wakeful.finished_job") == 1
    assert str(ids[7777]) in caplog.text


async def test_a_failure_that_cannot_be_stored_is_kept_apart_too(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure, "describe", lambda error, secrets: AttemptError("bad", "a\x00b", '"\\u0000"'))

    @app.task(name="bad", retry=Fixed(0))
    async def bad() -> None:
        raise ValueError

    @app.task(name="good")
    async def good() -> None: ...

    async with starting(app) as worker:
        id = await bad.aenqueue()
        assert (await comes_to(db, id, "dead"))["last_error_code"] == "unsettleable"
        await comes_to(db, await good.aenqueue(), "completed")
        assert counts(worker)["unstorable"] == 1


async def test_a_settlement_that_comes_too_late_is_refused_and_logged(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    go = asyncio.Event()

    @app.task(name="t")
    async def t(ctx: Context) -> int:
        if ctx.epoch == 1:
            await go.wait()
        return ctx.epoch

    async with working(app, concurrency=1) as stale:
        id = await t.aenqueue()
        await comes_to(db, id, "running")
        async with starting(app, concurrency=1):
            take_away(db, id)
            assert (await comes_to(db, id, "completed"))["result"] == 2
            go.set()
            await soon(lambda: counts(stale)["refused"] == 1)
    assert scalar(db, "select result from wakeful.jobs where id = %s", id) == 2
    assert [record for record in caplog.records if "lease_lost" in record.message and str(id) in record.message]


async def test_a_job_that_comes_back_to_the_same_worker_ends_the_attempt_that_lost_it(
    app: Wakeful, db: Session
) -> None:
    told = asyncio.Event()

    @app.task(name="t")
    async def t(ctx: Context) -> int:
        if ctx.epoch == 1:
            try:
                await asyncio.sleep(3600)
            finally:
                told.set()
        return ctx.epoch

    async with working(app, concurrency=2) as worker:
        id = await t.aenqueue()
        await comes_to(db, id, "running")
        take_away(db, id)
        assert (await comes_to(db, id, "completed"))["result"] == 2
        await heard(told)
        assert counts(worker)["refused"] == 0


def take_away(db: Session, id: UUID | None) -> None:
    """The job gets a lease of its own, which has lapsed: it is rescued, and free for anyone."""
    db.execute("update wakeful.job set lease_expires_at = now() - interval '1 second' where id = %s", [id])
    db.execute("select wakeful.rescue()")


async def test_a_conflict_is_nobodys_fault_and_the_settlement_is_written_again(app: Wakeful, db: Session) -> None:
    """The server answers with a deadlock, a full disk, a timeout or a lock: that says nothing about the row."""

    @app.task(name="t")
    async def t() -> str:
        return "fine"

    with failing(db, "complete_1", ["40P01", "53100", "57014", "55P03"]):
        async with starting(app) as worker:
            done = await comes_to(db, await t.aenqueue(), "completed")
            assert done["result"] == "fine"
            assert counts(worker)["unstorable"] == 0
            assert scalar(db, "select last_value from public.calls") >= 5


@contextmanager
def failing(db: Session, function: str, sqlstates: list[str]) -> Iterator[None]:
    """The next calls of a function fail with these errors, one after the other."""
    whole = str(scalar(db, "select pg_get_functiondef(%s::regproc)", f"wakeful.{function}"))
    answers = " ".join(
        f"if call_number = {number} then raise exception using errcode = '{state}', message = 'made up'; end if;"
        for number, state in enumerate(sqlstates, start=1)
    )
    broken = whole.replace(
        "\nbegin\n", f"\n    call_number bigint := nextval('public.calls');\nbegin\n    {answers}\n", 1
    )
    assert broken != whole
    db.execute("drop sequence if exists public.calls")
    db.execute("create sequence public.calls")
    db.execute(broken.encode())
    try:
        yield
    finally:
        db.execute(whole.encode())
