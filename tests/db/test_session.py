"""The app's database: found, checked and opened on first use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from wakeful import SchemaMismatch, Wakeful
from wakeful.database.embedded import stop
from wakeful.database.session import Database as Session
from wakeful.database.session import Unanswered
from wakeful.statements.statement import Statement, first_value, nothing
from wakeful.testing import Database
from wakeful.values.errors import ConfigError, DatabaseUnavailable

ONE = Statement("select 1", {}, first_value)
HANG_UP = Statement("select pg_terminate_backend(pg_backend_pid())", {}, first_value)


def insert(number: int) -> Statement[None]:
    return Statement("insert into n values (%(number)s::int)", {"number": number}, nothing)


def test_making_an_app_does_nothing_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wakeful.toml").write_text("not even toml")
    app = Wakeful("nonsense://")
    with pytest.raises(ConfigError, match=r"wakeful\.toml"):
        app.enqueue("t")


async def test_a_database_without_the_schema_is_refused_with_what_to_do(blank_database: Database) -> None:
    async with Wakeful(blank_database.dsn) as app:
        with pytest.raises(SchemaMismatch, match="wakeful migrate up"):
            app.enqueue("t")
        with pytest.raises(SchemaMismatch, match="wakeful migrate up"):
            await app.aenqueue("t")


async def test_a_schema_of_the_future_is_refused_once_it_breaks_this_code(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("insert into wakeful.migration (version, name, checksum, breaking) values (99, 'x', '', true)")
    async with Wakeful(database.dsn) as app:
        with pytest.raises(SchemaMismatch, match="Upgrade the wakeful package"):
            await app.aenqueue("t")


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    app = Wakeful("postgresql://nobody@127.0.0.1:1/nowhere")
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:1/nowhere does not answer"):
        app.enqueue("t")
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:1/nowhere does not answer"):
        await app.aenqueue("t")


async def test_statements_run_together_take_effect_together(database: Database) -> None:
    opened = Session(database.dsn)
    opened.run(Statement("create table n (number int primary key)", {}, nothing))
    opened.run_together([insert(1), insert(2)])
    await opened.arun_together([insert(3), insert(4)])
    with pytest.raises(psycopg.errors.UniqueViolation):
        opened.run_together([insert(5), insert(1)])
    with pytest.raises(psycopg.errors.UniqueViolation):
        await opened.arun_together([insert(6), insert(1)])
    count = Statement("select count(*) from n", {}, first_value)
    assert opened.run(count) == await opened.arun(count) == 4
    await opened.aclose()


async def test_a_lost_answer_is_told_apart_from_a_lost_cause(database: Database) -> None:
    opened = Session(database.dsn)
    with pytest.raises(Unanswered):
        opened.run(HANG_UP)
    with pytest.raises(Unanswered):
        await opened.arun(HANG_UP)
    with pytest.raises(Unanswered):
        opened.run_together([ONE, HANG_UP])
    with pytest.raises(Unanswered), opened.transaction() as conn:
        conn.execute("select pg_terminate_backend(pg_backend_pid())")
    assert opened.run(ONE) == await opened.arun(ONE) == 1
    await opened.aclose()


async def test_a_transaction_commits_at_its_end_and_not_after_an_error(database: Database) -> None:
    opened = Session(database.dsn)
    opened.run(Statement("create table n (number int)", {}, nothing))
    with opened.transaction() as conn:
        conn.execute("insert into n values (1)")
    with suppress(ZeroDivisionError):
        async with opened.atransaction() as aconn:
            await aconn.execute("insert into n values (2)")
            raise ZeroDivisionError
    assert opened.run(Statement("select count(*) from n", {}, first_value)) == 1
    await opened.aclose()


async def test_a_closed_app_opens_again_on_the_next_use(database: Database) -> None:
    app = Wakeful(database.dsn)
    for _ in range(2):
        assert app.enqueue("t") is not None
        assert await app.aenqueue("t") is not None
        await app.aclose()


def test_without_an_address_the_embedded_server_is_started_and_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Wakeful() as app:
        try:
            assert app.enqueue("t") is not None
            assert os.path.isdir(tmp_path / ".wakeful")
        finally:
            app.close()
            stop()
