"""Which server, and what is said when there is none."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from wakeful.database.address import describe, normalise_dsn, resolve_dsn
from wakeful.database.connect import aconnect, connect, connection_options
from wakeful.testing import Database
from wakeful.values.errors import ConfigError, DatabaseUnavailable


@pytest.mark.parametrize(
    "given",
    [
        "postgres://ann:pw@db.example:6000/shop",
        "postgresql://ann:pw@db.example:6000/shop",
        "postgresql+psycopg://ann:pw@db.example:6000/shop",
        "postgresql+asyncpg://ann:pw@db.example:6000/shop",
        "  postgresql+psycopg2://ann:pw@db.example:6000/shop\n",
        "host=db.example port=6000 user=ann password=pw dbname=shop",
    ],
)
def test_every_common_spelling_of_an_address_means_the_same(given: str) -> None:
    parts = conninfo_to_dict(resolve_dsn(given))
    assert parts == {"host": "db.example", "port": "6000", "user": "ann", "password": "pw", "dbname": "shop"}


def test_asyncpgs_ssl_parameter_becomes_libpqs() -> None:
    assert conninfo_to_dict(normalise_dsn("postgresql+asyncpg://h/d?ssl=require"))["sslmode"] == "require"


def test_what_is_given_wins_over_wakeful_dsn_and_that_over_database_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://third/d")
    assert "third" in resolve_dsn()
    monkeypatch.setenv("WAKEFUL_DSN", "postgresql://second/d")
    assert "second" in resolve_dsn()
    assert "first" in resolve_dsn("postgresql://first/d")


def test_an_empty_address_is_refused_and_an_empty_database_url_passed_over(
    monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    with pytest.raises(ConfigError, match="The DSN is empty: "):
        resolve_dsn("")
    monkeypatch.setenv("WAKEFUL_DSN", " ")
    with pytest.raises(ConfigError, match="WAKEFUL_DSN is empty: "):
        resolve_dsn()
    monkeypatch.setenv("WAKEFUL_DSN", database.dsn)
    monkeypatch.setenv("DATABASE_URL", "")
    assert resolve_dsn() == database.dsn


def test_another_database_system_is_refused_with_the_name_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://root:hunter2@h/d")
    with pytest.raises(ConfigError, match="DATABASE_URL names mysql, not PostgreSQL") as caught:
        resolve_dsn()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("broken", ["postgresql://ann:hunter 2@h/d", "postgresql://ann:hunter%2@h/d"])
def test_an_address_that_cannot_be_read_does_not_give_the_password_away(broken: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        resolve_dsn(broken)
    assert "hunter" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_unknown_option_of_an_address_is_named() -> None:
    with pytest.raises(ConfigError, match='does not know, "schema"'):
        resolve_dsn("postgresql://h/d?schema=public")


def test_the_description_of_an_address_has_no_password() -> None:
    assert describe("postgresql://ann:hunter2@db.example:6000/shop") == "db.example:6000/shop"


def test_a_dead_link_is_found_within_fifteen_seconds_unless_the_address_says_otherwise() -> None:
    options = connection_options("postgresql://h/d")
    silent = int(options["keepalives_idle"])
    probing = int(options["keepalives_interval"]) * int(options["keepalives_count"])
    assert silent + probing <= 15
    assert int(options["tcp_user_timeout"]) <= 15_000
    assert connection_options("postgresql://h/d?keepalives_idle=60")["keepalives_idle"] == "60"


def test_a_connection_says_who_it_is_and_commits_by_itself(database: Database) -> None:
    with connect(database.dsn, name="wakeful worker") as conn:
        assert conn.autocommit
        assert conn.execute("select current_setting('application_name')").fetchone() == ("wakeful worker",)
    named = make_conninfo(database.dsn, application_name="billing")
    with connect(named) as conn:
        assert conn.execute("select current_setting('application_name')").fetchone() == ("billing",)


def test_statements_are_prepared_unless_switched_off(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(database.dsn) as conn:
        assert conn.prepare_threshold == 5
    monkeypatch.setenv("WAKEFUL_PREPARE", "off")
    with connect(database.dsn) as conn:
        assert conn.prepare_threshold is None


async def test_statements_are_not_prepared_behind_a_pooler(database: Database) -> None:
    async with pooler(database.dsn) as dsn, await aconnect(dsn) as conn:
        assert conn.prepare_threshold is None
        assert await (await conn.execute("select 1")).fetchone() == (1,)


@asynccontextmanager
async def pooler(dsn: str) -> AsyncIterator[str]:
    """A relay that, as poolers do, tells the client a process number of its own making."""
    parts = conninfo_to_dict(dsn)
    relayed = asyncio.Event()

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(str(parts["host"]), parts["port"])
        await asyncio.gather(ask(client, to_server), answer(server, to_client))
        await asyncio.gather(to_client.wait_closed(), to_server.wait_closed())
        relayed.set()

    async def ask(client: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        while chunk := await client.read(65536):
            to_server.write(chunk)
        to_server.close()

    async def answer(server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        while not server.at_eof():
            with suppress(asyncio.IncompleteReadError):
                head = await server.readexactly(5)
                rest = await server.readexactly(int.from_bytes(head[1:], "big") - 4)
                to_client.write(head + (b"\0\0\0\x07" + rest[4:] if head[:1] == b"K" else rest))
        to_client.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as relay:
        port = relay.sockets[0].getsockname()[1]
        yield make_conninfo(dsn, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")
        await relayed.wait()


@contextmanager
def refusal(dsn: str) -> Iterator[pytest.ExceptionInfo[DatabaseUnavailable]]:
    with pytest.raises(DatabaseUnavailable) as caught:
        yield caught
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"The PostgreSQL server at {describe(dsn)} ")
    assert message.endswith(".")
    assert str(conninfo_to_dict(dsn).get("password")) not in message


def test_a_server_that_is_not_there_is_told_in_a_sentence(database: Database) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dsn = make_conninfo(database.dsn, host="127.0.0.1", port=unused.getsockname()[1])
        with refusal(dsn) as caught:
            connect(dsn)
    assert "does not answer. Start it" in str(caught.value)


async def test_a_wrong_password_is_told_in_a_sentence(database: Database) -> None:
    dsn = make_conninfo(database.dsn, password="hunter2")
    with refusal(dsn) as caught:
        connect(dsn)
    assert "refused the password" in str(caught.value)
    with refusal(dsn) as caught:
        await aconnect(dsn)
    assert "refused the password" in str(caught.value)


def test_an_unknown_database_is_told_in_a_sentence(database: Database) -> None:
    dsn = make_conninfo(database.dsn, dbname="nowhere")
    with refusal(dsn) as caught:
        connect(dsn)
    assert "has no such database" in str(caught.value)


def test_an_unknown_host_is_told_in_a_sentence(database: Database) -> None:
    dsn = make_conninfo(database.dsn, host="nowhere.invalid")
    with refusal(dsn) as caught:
        connect(dsn)
    assert "host name is unknown" in str(caught.value)


def test_a_database_without_a_free_connection_is_told_in_a_sentence(database: Database) -> None:
    with connect(database.dsn) as conn:
        conn.execute(psycopg.sql.SQL("create role {} login password 'pw'").format(user(database)))
        try:
            conn.execute(psycopg.sql.SQL("alter role {} connection limit 0").format(user(database)))
            dsn = make_conninfo(database.dsn, user=f"{database.name}_user", password="pw")
            with refusal(dsn) as caught:
                connect(dsn)
        finally:
            conn.execute(psycopg.sql.SQL("drop role {}").format(user(database)))
    assert "has no connection left" in str(caught.value)


def user(database: Database) -> psycopg.sql.Identifier:
    return psycopg.sql.Identifier(f"{database.name}_user")
