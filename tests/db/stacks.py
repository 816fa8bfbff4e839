"""The callers' own stacks: for each, a transaction of theirs that ends as theirs end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from uuid import uuid4

import asyncpg  # type: ignore[import-untyped]
import django
import psycopg
from django.conf import settings
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, Engine, NullPool, create_engine
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from wakeful.testing import Database

Sync = Callable[[Database], AbstractContextManager[object]]
Async = Callable[[Database], AbstractAsyncContextManager[object]]


def url(database: Database, driver: str) -> URL:
    parts = {name: str(value) for name, value in conninfo_to_dict(database.dsn).items()}
    return URL.create(
        f"postgresql+{driver}",
        username=parts["user"],
        password=parts["password"],
        host=parts["host"],
        port=int(parts["port"]),
        database=parts["dbname"],
    )


@contextmanager
def engine(database: Database) -> Iterator[Engine]:
    made = create_engine(url(database, "psycopg"), poolclass=NullPool)
    yield made
    made.dispose()


@asynccontextmanager
async def async_engine(database: Database, driver: str) -> AsyncIterator[AsyncEngine]:
    made = create_async_engine(url(database, driver), poolclass=NullPool)
    yield made
    await made.dispose()


@contextmanager
def psycopg_connection(database: Database) -> Iterator[object]:
    with psycopg.connect(database.dsn) as conn:
        yield conn


@contextmanager
def psycopg_transaction_in_autocommit(database: Database) -> Iterator[object]:
    with psycopg.connect(database.dsn, autocommit=True) as conn, conn.transaction():
        yield conn


@contextmanager
def sqlalchemy_session(database: Database) -> Iterator[object]:
    with engine(database) as made, Session(made) as session, session.begin():
        yield session


@contextmanager
def sqlalchemy_scoped_session(database: Database) -> Iterator[object]:
    with engine(database) as made:
        scoped = scoped_session(sessionmaker(made))
        with scoped.begin():
            yield scoped
        scoped.remove()


@contextmanager
def sqlalchemy_connection(database: Database) -> Iterator[object]:
    with engine(database) as made, made.begin() as conn:
        yield conn


@contextmanager
def django_atomic(database: Database) -> Iterator[object]:
    with django_alias(database) as alias, transaction.atomic(using=alias):
        yield connections[alias]


def configure_django() -> None:
    """Once a process: Django knows of no databases but those that tests add."""
    if not settings.configured:
        settings.configure(USE_TZ=True, DATABASES={})
        django.setup()


@contextmanager
def django_alias(database: Database) -> Iterator[str]:
    """Another database in Django's settings, for as long as the block lasts."""
    configure_django()
    parts = conninfo_to_dict(database.dsn)
    alias = f"test_{uuid4().hex}"
    connections.settings[alias] = connections.configure_settings(
        {
            "default": {},
            alias: {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts["dbname"],
                **{key.upper(): parts[key] for key in ("user", "password", "host", "port")},
            },
        }
    )[alias]
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias], connections.settings[alias]


@asynccontextmanager
async def psycopg_async_connection(database: Database) -> AsyncIterator[object]:
    async with await psycopg.AsyncConnection.connect(database.dsn) as conn:
        yield conn


@asynccontextmanager
async def asyncpg_transaction(database: Database) -> AsyncIterator[object]:
    conn = await asyncpg.connect(url(database, "x").render_as_string(False).replace("+x", ""))
    try:
        async with conn.transaction():
            yield conn
    finally:
        await conn.close()


@asynccontextmanager
async def asyncpg_pool(database: Database) -> AsyncIterator[object]:
    dsn = url(database, "x").render_as_string(False).replace("+x", "")
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as conn,
        conn.transaction(),
    ):
        yield conn


def sqlalchemy_async_session(driver: str) -> Async:
    @asynccontextmanager
    async def begin(database: Database) -> AsyncIterator[object]:
        async with async_engine(database, driver) as made, AsyncSession(made) as session, session.begin():
            yield session

    return begin


def sqlalchemy_async_scoped_session(driver: str) -> Async:
    @asynccontextmanager
    async def begin(database: Database) -> AsyncIterator[object]:
        async with async_engine(database, driver) as made:
            scoped = async_scoped_session(async_sessionmaker(made), scopefunc=lambda: 1)
            async with scoped.begin():
                yield scoped
            await scoped.remove()

    return begin


def sqlalchemy_async_connection(driver: str) -> Async:
    @asynccontextmanager
    async def begin(database: Database) -> AsyncIterator[object]:
        async with async_engine(database, driver) as made, made.begin() as conn:
            yield conn

    return begin


SYNC: dict[str, Sync] = {
    "psycopg": psycopg_connection,
    "psycopg in autocommit": psycopg_transaction_in_autocommit,
    "sqlalchemy Session": sqlalchemy_session,
    "sqlalchemy scoped_session": sqlalchemy_scoped_session,
    "sqlalchemy Connection": sqlalchemy_connection,
    "django": django_atomic,
}

ASYNC: dict[str, Async] = {
    "psycopg": psycopg_async_connection,
    "asyncpg": asyncpg_transaction,
    "asyncpg pool": asyncpg_pool,
    **{
        f"sqlalchemy {kind} on {driver}": stack(driver)
        for driver in ("psycopg", "asyncpg")
        for kind, stack in (
            ("AsyncSession", sqlalchemy_async_session),
            ("async_scoped_session", sqlalchemy_async_scoped_session),
            ("AsyncConnection", sqlalchemy_async_connection),
        )
    },
}
