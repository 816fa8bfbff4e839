"""NOTIFY changes latency, never correctness: off, cut or deaf, everything still runs, and the worker knows."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sized
from functools import partial
from uuid import UUID

import pytest

from tests.sessions import Session, query, scalar, value
from tests.worker.work import (
    all_over,
    at_rest,
    comes_to,
    counts,
    listener_of,
    shift_of,
    soon,
    starting,
    working,
)
from wakeful.app import Wakeful
from wakeful.testing import Database, Databases
from wakeful.wake.listener import Listener
from wakeful.worker import Worker


def declare(app: Wakeful) -> None:
    @app.task(name="t")
    async def t() -> None: ...


async def listening(worker: Worker) -> Listener:
    """The worker's listener, once it has subscribed."""
    await soon(lambda: listener_of(worker) is not None)
    found = listener_of(worker)
    assert found is not None
    return found


async def test_with_notify_off_the_poll_finds_the_job(database: Database, db: Session) -> None:
    async with Wakeful(database.dsn, notify=False) as app:
        declare(app)
        async with starting(app, poll_interval=0.3):
            assert cut_listeners(db) == 0
            for _ in range(3):
                await comes_to(db, value(db, "enqueue", task="t", payload={}), "completed")


async def test_notify_is_turned_off_by_the_environment(
    database: Database, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_NOTIFY", "off")
    async with Wakeful(database.dsn) as app:
        declare(app)
        async with starting(app, poll_interval=0.3):
            await comes_to(db, await app.aenqueue("t"), "completed")
            assert not query(db, "select from wakeful.sleeper")


async def test_a_job_that_pokes_nobody_is_found_by_the_pulse(app: Wakeful, db: Session) -> None:
    declare(app)
    async with working(app, poll_interval=1) as worker:
        said = counts(worker)
        id = value(db, "enqueue", task="t", payload={}, poke=False)
        await comes_to(db, id, "completed")
        assert counts(worker)["pulses"] > said["pulses"]


async def test_a_listener_that_is_cut_off_comes_back_and_nothing_is_missed(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    declare(app)
    async with working(app) as worker:
        for _ in range(3):
            assert cut_listeners(db) == 1
            # Sent into the gap: heard by nobody, and found by the scan after the listener is back.
            id = value(db, "enqueue", task="t", payload={})
            await comes_to(db, id, "completed")
            await listening(worker)
            await at_rest(worker)
        assert (await listening(worker)).losses == 3
        await comes_to(db, value(db, "enqueue", task="t", payload={}), "completed")
    assert "listener_lost" in caplog.text


async def test_a_deaf_listener_is_found_out_and_short_polls_take_over(
    database: Database, databases: Databases, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """Notifications stay within a database: a listener in another one subscribes, and hears nothing."""
    with databases.blank() as elsewhere, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WAKEFUL_LISTEN_DSN", elsewhere.dsn)
        async with Wakeful(database.dsn) as app:
            declare(app)
            async with starting(app) as worker:
                listener = await listening(worker)
                await soon(lambda: not listener.hears, 25)
                id = value(db, "enqueue", task="t", payload={})
                await comes_to(db, id, "completed")
                before = counts(worker)["pulses"]
                await soon(lambda: counts(worker)["pulses"] >= before + 2)
    [line] = [record for record in caplog.records if "listener_deaf" in record.message]
    assert line.levelno == logging.WARNING
    assert "WAKEFUL_LISTEN_DSN" in line.message


async def test_a_deaf_worker_does_not_ask_to_be_poked(database: Database, databases: Databases, db: Session) -> None:
    """A poke goes to two sleepers: one that cannot hear it must not be among them."""
    with databases.blank() as elsewhere, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WAKEFUL_LISTEN_DSN", elsewhere.dsn)
        async with Wakeful(database.dsn) as app:
            declare(app)
            async with starting(app) as worker:
                listener = await listening(worker)
                await soon(lambda: not listener.hears, 25)
                await soon(lambda: scalar(db, "select count(*) from wakeful.sleeper") == 0)


async def test_a_listener_with_a_direct_line_of_its_own(
    database: Database, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_LISTEN_DSN", database.dsn)
    async with Wakeful(database.dsn) as app:
        declare(app)
        async with working(app):
            await comes_to(db, await app.aenqueue("t"), "completed")


async def test_a_healthy_listener_is_never_called_deaf(app: Wakeful, caplog: pytest.LogCaptureFixture) -> None:
    """The canary may be heard before the pulse that sent it is answered; pulses follow each other fast here."""
    declare(app)
    async with starting(app, poll_interval=0.05) as worker:
        listener = await listening(worker)
        before = counts(worker)["pulses"]
        await soon(lambda: counts(worker)["pulses"] >= before + 60)
        assert listener.hears
        await soon(lambda: listener.check_at is None)
    assert "listener_deaf" not in caplog.text


async def test_the_listener_notices_a_dead_link_within_fifteen_seconds(app: Wakeful) -> None:
    """It sends nothing, so only keepalives can find out: 5 s of silence, then two probes 5 s apart."""
    declare(app)
    async with working(app) as worker:
        ear = await shift_of(worker)._open_ear()
        try:
            with socket.socket(fileno=socket.dup(ear._conn.fileno())) as link:
                assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                idle, interval, probes = (
                    link.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                )
            assert idle + interval * probes <= 15
        finally:
            await ear.close()


async def test_the_rollout_forth_and_back_loses_nothing(database: Database, db: Session) -> None:
    """Notify off, on with a short poll, on with a long one, and all the way back, under load."""
    phases = [(False, 0.2), (True, 0.2), (True, 20), (True, 0.2), (False, 0.2)]
    ids: list[UUID | None] = []
    starts: dict[int, int] = {}

    async def produce(app: Wakeful, ended: asyncio.Event) -> None:
        while not ended.is_set():
            ids.append(await app.aenqueue("counted", {"number": len(ids)}))
            await asyncio.sleep(0.005)

    for notify, poll in phases:
        async with Wakeful(database.dsn, notify=notify) as app:

            @app.task(name="counted")
            async def counted(number: int) -> None:
                starts[number] = starts.get(number, 0) + 1

            ended, enough = asyncio.Event(), len(ids) + 50
            producing = asyncio.create_task(produce(app, ended))
            async with starting(app, poll_interval=poll):
                await soon(partial(exceeds, starts, enough))
                ended.set()
                await producing
    async with Wakeful(database.dsn) as app:
        declare(app)
        app.task(name="counted")(counted.function)
        async with starting(app):
            assert await all_over(db, ids) == {"completed": len(ids)}
    assert set(starts.values()) == {1}


def exceeds(counted: Sized, number: int) -> bool:
    return len(counted) > number


def cut_listeners(db: Session) -> int:
    """End the server's side of every listening connection of this database; how many there were."""
    return len(
        query(
            db,
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and application_name = 'wakeful listener'",
        )
    )
