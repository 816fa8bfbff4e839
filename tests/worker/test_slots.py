"""Slots: whatever a job does, the next one gets its turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pytest

from tests.sessions import Session, scalar
from tests.worker.work import comes_to, shift_of, soon, starting
from wakeful.app import Wakeful
from wakeful.run.attempt import Why
from wakeful.run.context import Context
from wakeful.statements import settle as settling
from wakeful.values.errors import DatabaseUnavailable
from wakeful.values.retry import Fixed
from wakeful.worker.summary import Summary

# Deeper than any Python here can read, and no deeper than PostgreSQL can store.
LEVELS = 12_000
DEEP = "[" * LEVELS + "]" * LEVELS


class Row(msgspec.Struct):
    number: int


async def is_dead(db: Session, id: object) -> None:
    """As `comes_to`, for a row that this client could not read either."""
    await soon(lambda: scalar(db, "select state from wakeful.jobs where id = %s", id) == "dead")


async def test_counters_that_cannot_be_added_up_keep_no_slot(app: Wakeful, db: Session) -> None:
    odd: list[Any] = [Decimal("1.5"), 2.5, 10**400, 3, "12"]

    @app.task(name="t", retry=Fixed(0), max_attempts=1)
    async def t(ctx: Context, n: int) -> None:
        ctx.count("money", odd[n])

    async with starting(app, concurrency=1) as worker:
        wanted = ["completed", "completed", "dead", "completed", "dead"]
        for n, state in enumerate(wanted):
            await comes_to(db, await t.aenqueue(n), state)
        assert worker.summary.counters == {"money": 7.0}


async def test_what_cannot_be_told_of_a_job_keeps_no_slot(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    async with starting(app, concurrency=1):

        def refuse(*_: object) -> None:
            raise RuntimeError("no words")

        monkeypatch.setattr(Summary, "add", refuse)
        for _ in range(2):
            await comes_to(db, await t.aenqueue(), "completed")
    assert "count_failed" in caplog.text


async def test_payloads_and_metadata_that_are_too_deep_to_be_read_keep_no_slot(app: Wakeful, db: Session) -> None:
    @app.task(name="t", log_fields=["a"], max_attempts=1)
    async def t(a: object = None) -> None:
        raise ValueError

    async with starting(app, concurrency=1):
        enqueue = "select wakeful.enqueue('t', %s::text::jsonb, metadata => %s::text::jsonb, max_attempts => 1)"
        for payload, metadata in ((f'{{"a": {DEEP}}}', "{}"), ("{}", f'{{"retry": 1, "a": {DEEP}}}')):
            await is_dead(db, scalar(db, enqueue, payload, metadata))


async def test_a_payload_that_is_too_deep_fails_alone_in_its_batch(app: Wakeful, db: Session) -> None:
    @app.task(name="b", batch=4, linger="200ms", max_attempts=1)
    async def b(rows: list[dict[str, Any]]) -> None: ...

    deep = scalar(db, "select wakeful.enqueue('b', %s::text::jsonb, max_attempts => 1)", f'{{"a": {DEEP}}}')
    good = [await app.aenqueue("b", {"number": n}) for n in range(3)]
    async with starting(app, concurrency=1):
        await is_dead(db, deep)
        for id in good:
            await comes_to(db, id, "completed")


async def test_a_task_that_cancels_itself_has_failed(app: Wakeful, db: Session) -> None:
    starts: list[None] = []

    @app.task(name="t", retry=Fixed(0), max_attempts=2)
    async def t() -> None:
        starts.append(None)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async with starting(app, concurrency=1):
        await comes_to(db, await t.aenqueue(), "dead")
    assert len(starts) == 2


async def test_a_batch_that_is_stopped_before_its_first_step_frees_its_slot(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(name="b", batch=2, linger="20ms", retry=Fixed(0), max_attempts=3)
    async def b(rows: list[Row]) -> None: ...

    async with starting(app, concurrency=1) as worker:
        crew = shift_of(worker)._crew
        start = crew._start_batch
        stops: list[Why] = ["timeout"]

        def start_and_stop(*where: Any) -> None:
            start(*where)
            if stops:
                crew.stop(list(crew.running), stops.pop())

        monkeypatch.setattr(crew, "_start_batch", start_and_stop)
        for id in await b.aenqueue_many([{"number": 1}, {"number": 2}]):
            await comes_to(db, id, "completed")


async def test_a_thread_that_would_not_stop_keeps_the_slot_of_its_batch(app: Wakeful, db: Session) -> None:
    running, most, lock, go = [0], [0], threading.Lock(), threading.Event()

    @app.task(name="b", batch=2, linger="100ms", timeout="200ms", max_attempts=1)
    def b(rows: list[Row]) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        go.wait(20)
        with lock:
            running[0] -= 1

    ids = []
    for n in range(2):
        # One that does not fit comes first in each batch.
        scalar(db, "select wakeful.enqueue('b', '{\"number\": \"none\"}', max_attempts => 1)")
        ids.append(await app.aenqueue("b", {"number": n}))
    async with starting(app, concurrency=1):
        await comes_to(db, ids[0], "dead")
        await asyncio.sleep(0.4)
        go.set()
        await comes_to(db, ids[1], "completed")
    assert most == [1]


async def test_a_batch_that_is_ripe_is_not_overtaken_for_ever(app: Wakeful, db: Session) -> None:
    quick_ones = [0]

    @app.task(name="b", batch=10, linger="20ms")
    async def b(rows: list[Row]) -> None: ...

    @app.task(name="quick")
    async def quick() -> None:
        quick_ones[0] += 1
        await asyncio.sleep(0.005)

    await quick.aenqueue_many([{}] * 4000)
    async with starting(app, concurrency=2):
        await soon(lambda: quick_ones[0] > 20)
        [first] = await b.using(priority=100).aenqueue_many([{"number": 1}])
        await comes_to(db, first, "completed")
        assert quick_ones[0] < 3900


async def test_a_settlement_that_cannot_be_written_in_any_form_is_written_later(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [None] * 3
    settle, complete = settling.settle, settling.complete

    def broken(*given: Any) -> Any:
        if faults:
            faults.pop()
            raise psycopg.errors.FeatureNotSupported("cached plan must not change result type")
        return settle(*given)

    monkeypatch.setattr(settling, "settle", broken)
    monkeypatch.setattr(settling, "complete", lambda *given: broken(*given) if faults else complete(*given))

    @app.task(name="t", max_attempts=1)
    async def t() -> None:
        raise ValueError

    async with starting(app, concurrency=1):
        await comes_to(db, await t.aenqueue(), "dead")
    assert not faults


async def test_what_many_handlers_note_is_written_together(app: Wakeful, db: Session) -> None:
    noting, go = [0], asyncio.Event()

    @app.task(name="t")
    async def t(ctx: Context) -> None:
        noting[0] += 1
        for percent in range(100):
            ctx.progress(percent)
            ctx.count("steps")
            if go.is_set():
                break
            await asyncio.sleep(0.02)

    ids = await t.aenqueue_many([{}] * 40)
    async with starting(app, concurrency=40) as worker:
        line, statements = shift_of(worker)._line, []
        run = line.run

        async def counted(statement: Any) -> Any:
            statements.append(statement.sql)
            return await run(statement)

        line.run = counted  # type: ignore[method-assign]
        await soon(lambda: noting[0] == 40)
        await asyncio.sleep(0.45)
        await soon(lambda: any("note_1" in sql for sql in statements))
        go.set()
        for id in ids:
            assert (await comes_to(db, id, "completed"))["counters"]["steps"] > 1
        written: Sequence[str] = [sql for sql in statements if "note_1" in sql]
    # One for each of a few rounds, not one for each of forty jobs.
    assert len(written) < 20


async def test_what_a_job_noted_while_others_were_written_is_written_before_it_is_settled(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, go = asyncio.Event(), asyncio.Event()

    @app.task(name="first")
    async def first(ctx: Context) -> None:
        ctx.count("n")
        await go.wait()

    @app.task(name="second")
    async def second(ctx: Context) -> None:
        await noted.wait()
        ctx.count("n", 7)
        await go.wait()

    async with starting(app, concurrency=2) as worker:
        shift = shift_of(worker)
        run = shift._line.run

        async def while_it_is_written(statement: Any) -> Any:
            if "note_1" in statement.sql and not go.is_set():
                # The other one notes, that is gathered, and it ends, all before this is answered.
                noted.set()
                await soon(lambda: any(one.notes for one in shift._crew.running.values()))
                for running in list(shift._crew.running.values()):
                    if running.notes is not None:
                        shift._writer.note(running.job, running.take_notes())
                go.set()
                await soon(lambda: not shift._crew.running)
            return await run(statement)

        monkeypatch.setattr(shift._line, "run", while_it_is_written)
        ids = [await second.aenqueue(), await first.aenqueue()]
        told = [(await comes_to(db, id, "completed"))["counters"] for id in ids]
    assert told == [{"n": 7}, {"n": 1}]


async def test_of_notes_that_are_written_in_part_none_is_written_twice(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()
    refused: list[None] = []

    @app.task(name="t")
    async def t(ctx: Context, number: float) -> None:
        ctx.count("n", number)
        await go.wait()

    # One that cannot be stored, so that they are written in halves.
    ids = [await t.aenqueue(number) for number in (1, 2, 4, 8)]
    spoilt = await app.aenqueue("t", {"number": 16})
    async with starting(app, concurrency=5) as worker:
        shift = shift_of(worker)
        run = shift._line.run

        async def cut_short(statement: Any) -> Any:
            if "note_1" in statement.sql:
                if spoilt in statement.params["ids"] and len(statement.params["ids"]) > 1:
                    raise psycopg.errors.NumericValueOutOfRange("one of them")
                if not refused and spoilt in statement.params["ids"]:
                    refused.append(None)
                    raise DatabaseUnavailable("Gone, for a moment.")
            return await run(statement)

        shift._line.run = cut_short  # type: ignore[method-assign]
        await soon(lambda: bool(refused))
        go.set()
        told = [(await comes_to(db, id, "completed"))["counters"]["n"] for id in (*ids, spoilt)]
    assert told == [1, 2, 4, 8, 16]
