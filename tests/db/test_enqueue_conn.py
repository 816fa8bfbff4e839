"""`conn=`: the job joins the caller's transaction, whichever library it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import LiteralString

import psycopg
import pytest

from tests.db.stacks import ASYNC, SYNC, Async, Sync
from tests.sessions import Ear, Session, scalar, session
from tests.verbs import fall_asleep, state_of
from wakeful import DuplicateJob, InvalidOption, Task, Wakeful
from wakeful.testing import Database


class Undo(Exception):
    """The caller changes its mind."""


@pytest.fixture
def task() -> Task[[int], None]:
    # Its own address leads nowhere: nothing but the caller's connection is used.
    app = Wakeful("postgresql://nobody@127.0.0.1:1/nowhere")

    @app.task(name="t")
    def send(number: int) -> None: ...

    return send


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


each_sync = pytest.mark.parametrize("stack", SYNC.values(), ids=list(SYNC))
each_async = pytest.mark.parametrize("stack", ASYNC.values(), ids=list(ASYNC))


@each_sync
def test_a_commit_leaves_one_job_and_pokes_then(
    database: Database, db: Session, task: Task[[int], None], stack: Sync
) -> None:
    with session(database.dsn) as listening:
        ear = Ear(listening, fall_asleep(db))
        with stack(database) as conn:
            id = task.using(conn=conn).enqueue(1)
            assert id is not None
            assert state_of(db, id) is None
            assert ear.heard(db) == []
        assert state_of(db, id) == "ready"
        assert [hint["q"] for hint in ear.heard(db)] == ["default"]


@each_async
async def test_an_awaited_commit_leaves_one_job_and_pokes_then(
    database: Database, db: Session, task: Task[[int], None], stack: Async
) -> None:
    with session(database.dsn) as listening:
        ear = Ear(listening, fall_asleep(db))
        async with stack(database) as conn:
            id = await task.using(conn).aenqueue(1)
            assert id is not None
            assert state_of(db, id) is None
            assert ear.heard(db) == []
        assert state_of(db, id) == "ready"
        assert [hint["q"] for hint in ear.heard(db)] == ["default"]


@each_sync
def test_a_rollback_leaves_nothing(database: Database, db: Session, task: Task[[int], None], stack: Sync) -> None:
    with suppress(Undo), stack(database) as conn:
        task.using(conn).enqueue(1)
        task.using(conn, delay=5, tenant="a").enqueue_many([{"number": 2}, {"number": 3}])
        raise Undo
    assert scalar(db, "select count(*) from wakeful.job") == 0


@each_async
async def test_an_awaited_rollback_leaves_nothing(
    database: Database, db: Session, task: Task[[int], None], stack: Async
) -> None:
    with suppress(Undo):
        async with stack(database) as conn:
            await task.using(conn).aenqueue(1)
            await task.using(conn, delay=5, tenant="a").aenqueue_many([{"number": 2}, {"number": 3}])
            raise Undo
    assert scalar(db, "select count(*) from wakeful.job") == 0


@each_sync
def test_a_twin_is_told_of_on_every_stack(
    database: Database, db: Session, task: Task[[int], None], stack: Sync
) -> None:
    keyed = task.using(dedup_key="k")
    with stack(database) as conn:
        first = keyed.using(conn).enqueue(1)
        again = keyed.using(conn).enqueue(1)
        assert again is not None
        assert (again, again.action) == (first, "skipped")
    with pytest.raises(DuplicateJob) as caught, stack(database) as conn:
        keyed.using(conn, dedup="raise").enqueue(1)
    assert caught.value.existing_id == first


@each_async
async def test_a_twin_is_told_of_on_every_awaited_stack(
    database: Database, db: Session, task: Task[[int], None], stack: Async
) -> None:
    keyed = task.using(dedup_key="k")
    async with stack(database) as conn:
        first = await keyed.using(conn).aenqueue(1)
        again = await keyed.using(conn).aenqueue(1)
        assert again is not None
        assert (again, again.action) == (first, "skipped")
    with pytest.raises(DuplicateJob) as caught:
        async with stack(database) as conn:
            await keyed.using(conn, dedup="raise").aenqueue(1)
    assert caught.value.existing_id == first


def test_many_on_a_connection_in_autocommit_mode_are_made_all_or_none(
    database: Database, db: Session, task: Task[[int], None]
) -> None:
    db.execute("alter table wakeful.job add check (payload <> '{\"number\": 7000}')")
    with database.connect() as conn, pytest.raises(psycopg.errors.CheckViolation):
        task.using(conn).enqueue_many({"number": number} for number in range(7001))
    assert scalar(db, "select count(*) from wakeful.job") == 0


async def test_a_connection_of_the_other_kind_is_refused(database: Database, task: Task[[int], None]) -> None:
    with database.connect() as conn, pytest.raises(InvalidOption, match="conn"):
        await task.using(conn).aenqueue(1)
    async with await database.aconnect() as aconn:
        with pytest.raises(InvalidOption, match="conn"):
            task.using(aconn).enqueue(1)
    with pytest.raises(InvalidOption, match="conn is a str"):
        task.using("postgresql://").enqueue(1)


async def test_a_pipeline_has_its_job_at_once_and_its_transaction(
    database: Database, db: Session, task: Task[[int], None]
) -> None:
    with psycopg.connect(database.dsn) as conn, conn.pipeline():
        conn.execute("select 1")
        id = task.using(conn=conn).enqueue(1)
        assert id is not None
        assert state_of(db, id) is None
        conn.commit()
        assert state_of(db, id) == "ready"
    async with await psycopg.AsyncConnection.connect(database.dsn) as aconn, aconn.pipeline():
        await aconn.execute("select 1")
        ids = [await task.using(conn=aconn).aenqueue(number) for number in (1, 2)]
        await aconn.rollback()
    assert [state_of(db, id) for id in ids if id] == [None, None]


def test_a_pipeline_that_failed_before_says_so_and_enqueues_nothing(
    database: Database, task: Task[[int], None]
) -> None:
    with psycopg.connect(database.dsn) as conn:
        with pytest.raises(psycopg.errors.DivisionByZero):
            _enqueue_after(conn, "select 1/0", task)
        conn.rollback()
        assert conn.execute("select count(*) from wakeful.jobs").fetchone() == (0,)


def test_a_pipeline_is_told_what_is_refused(database: Database, db: Session, task: Task[[int], None]) -> None:
    once = task.using(dedup_key="k", dedup="raise")
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        _enqueue_after(conn, "select 1", once)
        with pytest.raises(DuplicateJob):
            _enqueue_after(conn, "create table undone ()", once)
    assert scalar(db, "select count(*) from wakeful.jobs") == 1
    assert scalar(db, "select to_regclass('undone') is null")


def _enqueue_after(conn: psycopg.Connection, statement: LiteralString, task: Task[[int], None]) -> None:
    with conn.pipeline():
        conn.execute(statement)
        task.using(conn=conn).enqueue(1)
