"""The short way to the server: the same answers as a cursor's, and a cursor wherever it cannot be taken."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

import psycopg
import pytest

from tests.db.samples import EVERY_KIND, EVERY_KIND_BACK
from tests.sessions import Session, query, scalar, until
from wakeful.database.fetch import afetch, fetch
from wakeful.database.quick import AsyncQuickConnection, QuickConnection
from wakeful.statements.statement import Statement
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable
from wakeful.values.job import JobId

ID = UUID("01890000-0000-7000-8000-000000000001")


class Colour(StrEnum):
    RED = "red"


VALUES: list[tuple[str, object]] = [
    ("uuid", ID),
    ("uuid", JobId(ID, "inserted")),
    ("text", ""),
    ("text", 'a "quoted" \\ back\\slash, {brace} and NULL, ü, 漢, 🦉'),
    ("text", "%(value)s and $1 and %%"),
    ("text", Colour.RED),
    ("integer", -(2**31)),
    ("bigint", 2**63 - 1),
    ("boolean", False),
    ("timestamptz", datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)),
    ("timestamptz", datetime(1, 1, 1, tzinfo=UTC)),
    ("interval", timedelta(days=-3, microseconds=1)),
    ("text", None),
    ("text[]", ['a "quoted" \\ back\\slash', "", "null", "NULL", None, "{}", "a,b", " "]),
    ("uuid[]", [ID, None]),
    ("integer[]", []),
    ("boolean[]", [True, None, False]),
    ("timestamptz[]", [datetime(2026, 2, 3, tzinfo=UTC)]),
]


@pytest.fixture
async def conn(database: Database) -> AsyncIterator[AsyncQuickConnection]:
    async with await database.aconnect() as made:
        assert isinstance(made, AsyncQuickConnection)
        yield made


async def quickly(conn: AsyncQuickConnection, statement: Statement[object]) -> object:
    rows = await conn.rows_of(statement)
    assert rows is not None, "it took no short way"
    return statement.decode(rows)


def echo(type: str, value: object) -> Statement[object]:
    return Statement(f"select %(value)s::{type}, 100 %% 7", {"value": value}, list)


@pytest.mark.parametrize(("type", "value"), VALUES)
async def test_what_goes_in_comes_back_as_by_a_cursor(conn: AsyncQuickConnection, type: str, value: object) -> None:
    statement = echo(type, value)
    async with conn.cursor(binary=True) as cursor:
        await cursor.execute(statement.sql.encode(), statement.params)
        expected = await cursor.fetchall()
    assert expected == [(value, 2)]
    # Again and again: it is prepared on the way.
    for _ in range(8):
        assert await quickly(conn, statement) == expected


@pytest.mark.parametrize(("type", "value"), VALUES)
def test_what_a_thread_sends_comes_back_alike(database: Database, type: str, value: object) -> None:
    with database.connect() as conn:
        assert isinstance(conn, QuickConnection)
        for _ in range(8):
            rows = conn.rows_of(echo(type, value))
            assert rows == [(value, 2)]


def test_threads_that_share_a_connection_take_turns(database: Database) -> None:
    with database.connect() as conn, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(fetch, conn, echo("integer", n)) for n in range(100)]
        assert [one.result() for one in asked] == [[(n, 2)] for n in range(100)]


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
async def test_text_that_no_server_takes_is_refused_as_a_cursor_does(conn: AsyncQuickConnection, value: str) -> None:
    statement = echo("text", value)
    assert await conn.rows_of(statement) is None
    with pytest.raises((psycopg.DataError, UnicodeEncodeError)):
        await afetch(conn, statement)
    assert await quickly(conn, echo("integer", 1)) == [(1, 2)]


async def test_bytes_and_floats_are_left_to_a_cursor(conn: AsyncQuickConnection) -> None:
    for type, value in (("bytea", b"\0\1"), ("float8", 0.1), ("float8[]", [0.5, None])):
        statement = echo(type, value)
        assert await conn.rows_of(statement) is None
        assert await afetch(conn, statement) == [(value, 2)]
    assert await afetch(conn, EVERY_KIND) == EVERY_KIND_BACK


async def test_it_is_prepared_after_some_calls_unless_a_pooler_is_in_between(
    conn: AsyncQuickConnection, database: Database
) -> None:
    statement: Statement[object] = Statement(
        "select count(*) from pg_prepared_statements where name like %(name)s::text", {"name": "wakeful%"}, list
    )
    seen = [await quickly(conn, statement) for _ in range(7)]
    assert seen == [[(0,)]] * 5 + [[(1,)]] * 2
    async with await database.aconnect() as behind:
        behind.prepare_threshold = None
        assert [await quickly(behind, statement) for _ in range(7)] == [[(0,)]] * 7  # type: ignore[arg-type]


async def test_other_encodings_and_pipelines_are_left_to_a_cursor(conn: AsyncQuickConnection) -> None:
    await conn.execute("set client_encoding to latin1")
    assert await conn.rows_of(echo("text", "ü")) is None
    assert await afetch(conn, echo("text", "ü")) == [("ü", 2)]
    await conn.execute("set client_encoding to utf8")
    async with conn.pipeline():
        assert await conn.rows_of(echo("text", "ü")) is None
        assert await afetch(conn, echo("text", "ü")) == [("ü", 2)]


async def test_within_a_transaction_it_is_left_to_a_cursor(conn: AsyncQuickConnection, db: Session) -> None:
    await conn.execute("create table t (n int)")
    insert: Statement[object] = Statement("insert into t values (%(n)s::integer)", {"n": 1}, list)
    async with conn.transaction(force_rollback=True):
        assert await conn.rows_of(insert) is None
        assert await afetch(conn, insert) == []
    assert scalar(db, "select count(*) from t") == 0
    assert await quickly(conn, insert) == []
    assert scalar(db, "select count(*) from t") == 1


async def test_what_the_driver_gives_up_is_prepared_again(conn: AsyncQuickConnection) -> None:
    """It does so with all that is prepared, when something was dropped or rolled back and it had prepared itself."""
    statement = echo("integer", 1)
    for again in range(3):
        for _ in range(8):
            assert await quickly(conn, statement) == [(1, 2)]
            await conn.execute("select 1 as again")
        if again == 1:
            await conn.execute("create table t ()")
            await conn.execute("drop table t")
        else:
            async with conn.transaction(force_rollback=True):
                await conn.execute("select 1 as again")
        names = await (await conn.execute("select count(*) from pg_prepared_statements")).fetchone()
        assert names == (0,), "the driver has given up nothing"


async def test_an_error_while_preparing_leaves_a_connection_that_works(conn: AsyncQuickConnection) -> None:
    await conn.execute("create table t (n int)")
    statement: Statement[object] = Statement("select n from t where n = %(n)s::integer", {"n": 1}, list)
    for _ in range(5):
        assert await quickly(conn, statement) == []
    await conn.execute("drop table t")
    for _ in range(2):
        with pytest.raises(psycopg.errors.UndefinedTable):
            await conn.rows_of(statement)
    await conn.execute("create table t as select 1 as n")
    assert await quickly(conn, statement) == [(1,)]


async def test_a_connection_that_nobody_uses_any_more_is_gone_at_once(database: Database) -> None:
    conn = await database.aconnect()
    await afetch(conn, echo("integer", 1))
    await conn.close()
    forgotten = weakref.ref(conn)
    gc.disable()
    try:
        del conn
        assert forgotten() is None
    finally:
        gc.enable()


async def test_two_callers_of_one_connection_take_turns(conn: AsyncQuickConnection) -> None:
    asked = [quickly(conn, echo("integer", n)) for n in range(20)]
    assert await asyncio.gather(*asked) == [[(n, 2)] for n in range(20)]


async def test_a_server_that_hangs_up_is_told_of(conn: AsyncQuickConnection, db: Session) -> None:
    waiting = asyncio.create_task(afetch(conn, Statement("select pg_sleep(60)", {}, list)))
    await asyncio.to_thread(until, lambda: _sleeps(db, conn))
    scalar(db, "select pg_terminate_backend(%s)", conn.info.backend_pid)
    with pytest.raises(DatabaseUnavailable):
        await waiting
    with pytest.raises(DatabaseUnavailable):
        await afetch(conn, echo("integer", 1))


async def test_who_is_cancelled_leaves_no_statement_behind(conn: AsyncQuickConnection, db: Session) -> None:
    waiting = asyncio.create_task(afetch(conn, Statement("select pg_sleep(60)", {}, list)))
    await asyncio.to_thread(until, lambda: _sleeps(db, conn))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.to_thread(until, lambda: not _sleeps(db, conn))
    assert await quickly(conn, echo("integer", 1)) == [(1, 2)]


def _sleeps(db: Session, conn: AsyncQuickConnection) -> bool:
    pid = conn.info.backend_pid
    return bool(query(db, "select from pg_stat_activity where pid = %s and wait_event = 'PgSleep'", pid))
