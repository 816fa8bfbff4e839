"""Connections of the wrong kind, in the wrong state, or with habits of their own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import psycopg_pool
import pytest
from django.db import connections
from django.utils.connection import ConnectionProxy
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, sessionmaker

from tests.db import stacks
from tests.db.samples import EVERY_KIND, EVERY_KIND_BACK
from wakeful.database.foreign import arun_on, run_on
from wakeful.statements.statement import Statement, first_value, nothing
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable, InvalidOption

ONE = Statement("select %(n)s::int", {"n": 1}, first_value)
MAKE = Statement("create table public.made ()", {}, nothing)
HANG_UP = Statement("select pg_terminate_backend(pg_backend_pid())", {}, nothing)


def made(database: Database) -> bool:
    with database.connect() as conn:
        return conn.execute("select to_regclass('public.made') is not null").fetchone() == (True,)


@pytest.mark.parametrize("given", ["postgresql://h/d", 7, object(), None])
async def test_what_is_no_connection_is_refused_with_what_to_pass(given: object) -> None:
    with pytest.raises(InvalidOption, match="Pass a psycopg, asyncpg, SQLAlchemy or Django connection"):
        run_on(given, ONE)
    with pytest.raises(InvalidOption, match=r"^conn is an? "):
        await arun_on(given, ONE)


async def test_pools_engines_and_factories_are_refused_with_what_to_pass(database: Database) -> None:
    pool = psycopg_pool.ConnectionPool(database.dsn, open=False)
    with pytest.raises(InvalidOption, match=r"is a psycopg_pool\S+\. Pass a psycopg"):
        run_on(pool, ONE)
    with stacks.engine(database) as engine, engine.connect() as conn:
        for wrong in (engine, sessionmaker(engine), conn.connection):
            with pytest.raises(InvalidOption, match="Pass a Session or a Connection"):
                run_on(wrong, ONE)
    async with stacks.async_engine(database, "asyncpg") as async_engine:
        with pytest.raises(InvalidOption, match="Pass an AsyncSession"):
            await arun_on(async_engine, ONE)
        with pytest.raises(InvalidOption, match="Await the async form"):
            run_on(async_engine, ONE)
    with pytest.raises(InvalidOption, match="Pass a connection: `async with pool"):
        await arun_on(asyncpg.create_pool("postgresql://h/d"), ONE)


@pytest.mark.parametrize("stack", stacks.SYNC.values(), ids=stacks.SYNC.keys())
def test_a_sync_connection_is_refused_by_an_async_call(database: Database, stack: stacks.Sync) -> None:
    with stack(database) as conn, pytest.raises(InvalidOption, match="sync form"):
        asyncio.run(arun_on(conn, ONE))


@pytest.mark.parametrize("stack", stacks.ASYNC.values(), ids=stacks.ASYNC.keys())
async def test_an_async_connection_is_refused_by_a_sync_call(database: Database, stack: stacks.Async) -> None:
    async with stack(database) as conn:
        with pytest.raises(InvalidOption, match="wait the async form of this call"):
            run_on(conn, ONE)


async def test_a_closed_connection_is_refused(database: Database) -> None:
    gone: list[Any] = []
    with stacks.psycopg_connection(database) as conn:
        gone.append(conn)
    with stacks.sqlalchemy_connection(database) as conn:
        gone.append(conn)
    for conn in gone:
        with pytest.raises(InvalidOption, match="is closed"):
            run_on(conn, ONE)
    async_gone: list[Any] = []
    for stack in (stacks.psycopg_async_connection, stacks.asyncpg_transaction, stacks.asyncpg_pool):
        async with stack(database) as conn:
            async_gone.append(conn)
    async with stacks.sqlalchemy_async_connection("asyncpg")(database) as conn:
        async_gone.append(conn)
    for conn in async_gone:
        with pytest.raises(InvalidOption, match="is closed"):
            await arun_on(conn, ONE)


@pytest.mark.parametrize("stack", [stacks.asyncpg_transaction, stacks.asyncpg_pool])
async def test_a_connection_of_another_event_loop_is_refused_before_it_is_used(
    database: Database, stack: stacks.Async
) -> None:
    async with stack(database) as conn:
        with pytest.raises(InvalidOption, match=r"^conn belongs to another event loop\. Pass a connection"):
            await asyncio.to_thread(asyncio.run, arun_on(conn, MAKE))
        assert await arun_on(conn, ONE) == 1
    assert not made(database)


def test_another_database_system_is_refused() -> None:
    with create_engine("sqlite://").connect() as conn:
        with pytest.raises(InvalidOption, match="runs on sqlite"):
            run_on(conn, ONE)
        conn.engine.dispose()


def test_a_session_without_an_engine_is_refused() -> None:
    with Session() as session, pytest.raises(InvalidOption, match=r"Pass the connection"):
        run_on(session, ONE)


async def test_outside_a_transaction_autocommit_commits_at_once(database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        run_on(conn, MAKE)
        assert made(database)
        conn.execute("drop table public.made")
    dsn = stacks.url(database, "x").render_as_string(False).replace("+x", "")
    bare = await asyncpg.connect(dsn)
    await arun_on(bare, MAKE)
    assert made(database)
    await bare.close()


def test_djangos_proxy_and_its_autocommit_work_too(database: Database) -> None:
    with stacks.django_alias(database) as alias:
        run_on(ConnectionProxy(connections, alias), MAKE)
        assert made(database)


async def test_a_users_own_json_codec_does_not_encode_twice(database: Database) -> None:
    async with stacks.asyncpg_transaction(database) as conn:
        assert isinstance(conn, asyncpg.Connection)
        for kind in ("json", "jsonb"):
            await conn.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        assert await arun_on(conn, EVERY_KIND) == EVERY_KIND_BACK


async def test_the_sync_session_inside_run_sync_joins_the_same_transaction(database: Database) -> None:
    for driver in ("asyncpg", "psycopg"):
        async with stacks.async_engine(database, driver) as engine, AsyncSession(engine) as session:
            await session.run_sync(run_on, MAKE)
            await session.rollback()
        assert not made(database)


async def test_a_session_that_already_works_is_joined_where_it_stands(database: Database) -> None:
    """A savepoint that is rolled back takes the statement with it, and the rest stays."""
    kept = Statement("create table public.kept ()", {}, nothing)
    async with stacks.async_engine(database, "asyncpg") as engine, AsyncSession(engine) as session:
        await arun_on(session, kept)
        savepoint = await session.begin_nested()
        await arun_on(session, MAKE)
        await savepoint.rollback()
        await session.commit()
    assert not made(database)
    with database.connect() as conn:
        assert conn.execute("select to_regclass('public.kept') is not null").fetchone() == (True,)


@pytest.mark.parametrize("stack", stacks.SYNC.values(), ids=stacks.SYNC.keys())
def test_a_connection_that_is_lost_is_an_unavailable_database(database: Database, stack: stacks.Sync) -> None:
    lost = False
    try:
        with stack(database) as conn:
            with pytest.raises(DatabaseUnavailable):
                run_on(conn, HANG_UP)
            lost = True
    except Exception:
        # What the stack itself says when it tries to end a transaction that is gone is its own affair.
        assert lost


@pytest.mark.parametrize("stack", stacks.ASYNC.values(), ids=stacks.ASYNC.keys())
async def test_an_async_connection_that_is_lost_is_an_unavailable_database(
    database: Database, stack: stacks.Async
) -> None:
    lost = False
    try:
        async with stack(database) as conn:
            with pytest.raises(DatabaseUnavailable):
                await arun_on(conn, HANG_UP)
            lost = True
    except Exception:
        # What the stack itself says when it tries to end a transaction that is gone is its own affair.
        assert lost
