"""Handlers on the loop, in threads and in processes; whatever they return or raise has its outcome."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import pytest

from tests.sessions import Session
from tests.worker import elsewhere
from tests.worker.work import comes_to, shift_of, soon, starting
from wakeful.app import Wakeful
from wakeful.observe.observer import Observer, Tell
from wakeful.run.context import Context, SyncContext
from wakeful.testing import Database
from wakeful.values.job import Job
from wakeful.values.outcome import Cancel, Dead, Retry, Snooze
from wakeful.values.retry import Fixed, Never
from wakeful.worker import crew


async def test_an_async_handler_runs_on_the_loop_and_a_sync_one_in_a_thread(app: Wakeful, db: Session) -> None:
    where: dict[str, int] = {}

    @app.task(name="loop")
    async def on_loop(word: str) -> str:
        where["loop"] = threading.get_ident()
        return word.upper()

    @app.task(name="thread")
    def in_thread(word: str) -> str:
        where["thread"] = threading.get_ident()
        return word.upper()

    async with starting(app):
        for task in (on_loop, in_thread):
            assert (await comes_to(db, await task.aenqueue("hello"), "completed"))["result"] == "HELLO"
    assert where["loop"] == threading.get_ident()
    assert where["thread"] != threading.get_ident()


async def test_a_handler_in_a_process_of_its_own(db: Session, database: Database) -> None:
    async with elsewhere.app_on(database.dsn) as app, starting(app):
        done = await comes_to(db, await elsewhere.pid_and_double.aenqueue(21), "completed")
        assert done["result"]["double"] == 42
        assert done["result"]["pid"] != elsewhere.own_pid()


async def test_outcomes_come_back_from_the_process(database: Database, db: Session) -> None:
    expected = {
        "raise": ("dead", "ValueError"),
        "dead": ("dead", "Dead"),
        "exit": ("dead", "process_died"),
        "snooze": ("scheduled", None),
        "cancel": ("cancelled", None),
        "retry": ("scheduled", "Retry"),
        "unstorable": ("dead", "PayloadError"),
    }
    async with elsewhere.app_on(database.dsn) as app, starting(app, concurrency=2):
        ids = {word: await elsewhere.told.using(max_attempts=2).aenqueue(word) for word in expected}
        for word, (state, code) in expected.items():
            row = await comes_to(db, ids[word], state)
            assert row["last_error_code"] == code, word


async def test_the_process_is_used_again_and_replaced_when_it_dies(database: Database, db: Session) -> None:
    async with elsewhere.app_on(database.dsn) as app, starting(app, concurrency=1):

        async def pid() -> int:
            done = await comes_to(db, await elsewhere.pid_and_double.aenqueue(1), "completed")
            return int(done["result"]["pid"])

        first = await pid()
        assert await pid() == first
        await comes_to(db, await elsewhere.told.using(max_attempts=1).aenqueue("exit"), "dead")
        assert await pid() != first


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_each_outcome(app: Wakeful, db: Session, kind: str) -> None:
    if kind == "loop":

        @app.task(name="acts", retry=Fixed(3600))
        async def on_loop(name: str) -> Any:
            return ACTS[name][0]()
    else:

        @app.task(name="acts", retry=Fixed(3600))
        def in_thread(name: str) -> Any:
            return ACTS[name][0]()

    async with starting(app):
        ids = {name: await app.aenqueue("acts", {"name": name}) for name in ACTS}
        for name, (_, state, told) in ACTS.items():
            row = await comes_to(db, ids[name], state)
            assert {column: row[column] for column in told} == told, name


async def test_the_last_attempt_that_fails_is_a_dead_letter_with_its_history(app: Wakeful, db: Session) -> None:
    @app.task(name="fails", retry=Fixed(0), max_attempts=3)
    async def fails(ctx: Context) -> None:
        raise ValueError(f"attempt {ctx.attempt}")

    async with starting(app):
        row = await comes_to(db, await fails.aenqueue(), "dead")
    assert [entry["message"] for entry in row["attempts"]] == ["attempt 1", "attempt 2", "attempt 3"]
    assert "Traceback" in row["attempts"][0]["details"]["traceback"]


async def test_a_policy_that_allows_one_start(app: Wakeful, db: Session) -> None:
    @app.task(name="fails", retry=Never())
    async def fails() -> None:
        raise ValueError

    async with starting(app):
        assert (await comes_to(db, await fails.aenqueue(), "dead"))["attempt"] == 1


async def test_a_retry_function_that_raises_costs_neither_the_job_nor_the_slot(app: Wakeful, db: Session) -> None:
    def broken(attempt: int) -> int:
        raise ZeroDivisionError

    @app.task(name="fails", retry=broken)
    async def fails() -> None:
        raise ValueError("the handler's own")

    async with starting(app, concurrency=1):
        for _ in range(2):
            row = await comes_to(db, await fails.aenqueue(), "scheduled")
            assert row["last_error_message"] == "the handler's own"


async def test_a_payload_that_does_not_fit_the_function_fails_with_its_reason(app: Wakeful, db: Session) -> None:
    @app.task(name="typed")
    async def typed(number: int) -> None: ...

    async with starting(app):
        db.execute("select wakeful.enqueue('typed', '{\"number\": \"many\"}', id => wakeful.new_id())")
        [row] = db.execute("select id from wakeful.job").fetchall()
        told = await comes_to(db, row["id"], "scheduled")
        assert "number" in told["last_error_message"]


async def test_a_cancellation_of_the_handlers_own_is_a_failure_and_frees_the_slot(app: Wakeful, db: Session) -> None:
    """It awaited something that was cancelled; nobody stopped the job itself."""

    @app.task(name="awaits")
    async def awaits() -> None:
        inner = asyncio.create_task(asyncio.sleep(3600))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    async with starting(app, concurrency=1):
        for _ in range(2):
            row = await comes_to(db, await awaits.aenqueue(), "scheduled")
            assert row["last_error_code"] == "CancelledError"


async def test_one_handler_may_not_see_anothers_context_variables(app: Wakeful, db: Session) -> None:
    mine: ContextVar[int] = ContextVar("mine", default=0)

    @app.task(name="sets")
    async def sets(number: int) -> int:
        before = mine.get()
        mine.set(number)
        return before

    async with starting(app, concurrency=1):
        for number in (1, 2):
            assert (await comes_to(db, await sets.aenqueue(number), "completed"))["result"] == 0


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_handler_that_takes_too_long_is_told_and_its_attempt_fails(
    app: Wakeful, db: Session, kind: str
) -> None:
    told = threading.Event()

    @app.task(name="loop", timeout=0.3, retry=Fixed(3600))
    async def on_loop() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            told.set()
            raise

    @app.task(name="thread", timeout=0.3, retry=Fixed(3600))
    def in_thread(ctx: SyncContext) -> None:
        assert ctx.wait(60)
        assert ctx.cancelled
        told.set()

    async with starting(app):
        row = await comes_to(db, await app.aenqueue(kind), "scheduled")
        assert (row["attempt"], row["last_error_code"]) == (1, "timeout")
        assert await asyncio.to_thread(told.wait, 10)


async def test_a_thread_that_ignores_its_timeout_keeps_its_slot_until_it_ends(app: Wakeful, db: Session) -> None:
    end = threading.Event()

    @app.task(name="ignores", timeout=0.2, retry=Fixed(3600))
    def ignores() -> None:
        end.wait(60)

    @app.task(name="next")
    async def next_one() -> None: ...

    async with starting(app, concurrency=1):
        stuck = await ignores.aenqueue()
        following = await next_one.aenqueue()
        assert (await comes_to(db, stuck, "scheduled"))["last_error_code"] == "timeout"
        await asyncio.sleep(0.2)
        assert (await comes_to(db, following, "ready"))["attempt"] == 0
        end.set()
        await comes_to(db, following, "completed")


async def test_an_async_handler_that_ignores_its_timeout_does_not_hold_its_job_for_ever(
    app: Wakeful, db: Session
) -> None:
    end = asyncio.Event()

    @app.task(name="ignores", timeout=0.2, retry=Fixed(3600))
    async def ignores() -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    @app.task(name="next")
    async def next_one() -> None: ...

    async with starting(app, concurrency=1):
        stuck = await ignores.aenqueue()
        following = await next_one.aenqueue()
        assert (await comes_to(db, stuck, "scheduled"))["last_error_code"] == "timeout"
        assert (await comes_to(db, following, "ready"))["attempt"] == 0
        end.set()
        await comes_to(db, following, "completed")


def _raise(error: BaseException) -> None:
    raise error


class _Coded(Exception):
    code = "E_CARD"


# What a handler does, the state in which its job is then, and what is told of it.
ACTS: dict[str, tuple[Callable[[], object], str, dict[str, object]]] = {
    "value": (lambda: {"a": [1, None]}, "completed", {"result": {"a": [1, None]}, "attempt": 1}),
    "nothing": (lambda: None, "completed", {"result": None}),
    "snooze": (lambda: Snooze(3600, "later"), "scheduled", {"attempt": 0}),
    "cancel": (lambda: Cancel("no longer wanted"), "cancelled", {"cancel_reason": "no longer wanted"}),
    "retry": (lambda: _raise(Retry(after=3600)), "scheduled", {"attempt": 1, "last_error_code": "Retry"}),
    "dead": (lambda: _raise(Dead("hopeless")), "dead", {"attempt": 1, "last_error_message": "hopeless"}),
    "error": (lambda: _raise(ValueError("odd")), "scheduled", {"attempt": 1, "last_error_code": "ValueError"}),
    "exit": (lambda: _raise(SystemExit(3)), "scheduled", {"attempt": 1}),
    "coded": (lambda: _raise(_Coded("x")), "scheduled", {"last_error_code": "E_CARD"}),
    "unprintable": (lambda: _raise(ValueError("a\x00b\ud800")), "scheduled", {"last_error_code": "ValueError"}),
    "no JSON": (object, "dead", {"attempt": 1}),
    "no text": (lambda: {"a": "\ud800"}, "dead", {"attempt": 1}),
}


class Mute(Exception):
    """One that cannot be read at all."""

    def __str__(self) -> str:
        raise RuntimeError("no word")

    @property
    def code(self) -> str:
        raise RuntimeError("no code")

    @property
    def response(self) -> object:
        raise RuntimeError("no response")


def after(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


STRANGE: list[tuple[Callable[[], BaseException], str]] = [
    (lambda: StopIteration(1), "StopIteration"),
    (lambda: StopAsyncIteration(1), "StopAsyncIteration"),
    (lambda: after(RuntimeError("of its own"), StopIteration()), "RuntimeError"),
    (GeneratorExit, "GeneratorExit"),
    (KeyboardInterrupt, "KeyboardInterrupt"),
    (lambda: SystemExit("bye"), "bye"),
    (Mute, "Mute"),
]


@pytest.mark.parametrize("place", ["loop", "thread", "batch"])
@pytest.mark.parametrize(("make", "code"), STRANGE)
async def test_whatever_a_handler_raises_is_a_failure_that_counts(
    app: Wakeful, db: Session, place: str, make: Callable[[], BaseException], code: str
) -> None:
    @app.task(name="bad.loop", retry=Fixed(0), max_attempts=2)
    async def on_loop() -> None:
        await asyncio.sleep(0)
        raise make()

    @app.task(name="bad.thread", retry=Fixed(0), max_attempts=2)
    def in_thread() -> None:
        raise make()

    @app.task(name="bad.batch", retry=Fixed(0), max_attempts=2, batch=2)
    def in_batch(items: list[dict[str, int]]) -> None:
        raise make()

    @app.task(name="good")
    async def good() -> None:
        pass

    # One slot, which must be free again afterwards.
    async with starting(app, concurrency=1):
        job = await app.aenqueue(f"bad.{place}", {"n": 1} if place == "batch" else {})
        died = await comes_to(db, job, "dead")
        assert (died["attempt"], died["last_error_code"]) == (2, code)
        await comes_to(db, await good.aenqueue(), "completed")


async def test_an_observers_own_mistake_around_a_handler_neither_hangs_the_job_nor_its_slot(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("observed too closely")

    class Surrounding(Observer):
        def around(self, jobs: Sequence[Job]) -> AbstractContextManager[Tell] | None:
            return None

    monkeypatch.setattr(crew, "surrounded", broken)
    app.observers.append(Surrounding())

    @app.task(name="t", retry=Never())
    async def t() -> None:
        pass

    async with starting(app, concurrency=1):
        for _ in range(2):
            died = await comes_to(db, await t.aenqueue(), "dead")
            assert died["last_error_message"] == "observed too closely"


async def test_a_process_leaves_interrupts_to_the_worker(db: Session, database: Database) -> None:
    async with elsewhere.app_on(database.dsn) as app, starting(app):
        assert (await comes_to(db, await elsewhere.interrupts.aenqueue(), "completed"))["result"] is True


async def test_a_result_that_is_no_json_is_final_in_a_process_too(db: Session, database: Database) -> None:
    async with elsewhere.app_on(database.dsn) as app, starting(app):
        died = await comes_to(db, await elsewhere.no_number.aenqueue(), "dead")
        assert (died["attempt"], died["last_error_code"]) == (1, "PayloadError")


async def test_a_process_that_was_killed_while_it_was_idle_costs_no_job(db: Session, database: Database) -> None:
    async with elsewhere.app_on(database.dsn) as app, starting(app) as worker:
        double = elsewhere.pid_and_double.using(max_attempts=1)
        first = await comes_to(db, await double.aenqueue(1), "completed")
        [idle] = shift_of(worker)._places._idle_processes
        os.kill(first["result"]["pid"], signal.SIGKILL)
        await soon(lambda: bool(idle._broken))
        assert (await comes_to(db, await double.aenqueue(2), "completed"))["result"]["double"] == 4
