"""The tests' own databases: apart from each other, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from wakeful.database.address import with_database
from wakeful.database.connect import connect
from wakeful.database.embedded import ensure, stop
from wakeful.database.migrations import applied, newest_version
from wakeful.edges.testing import memory
from wakeful.testing import Database, Databases


def exists(databases: Databases, name: str) -> bool:
    with connect(with_database(databases.dsn, "postgres")) as conn:
        found = conn.execute("select 1 from pg_database where datname = %s", [name])
        return found.fetchone() is not None


def test_a_database_is_migrated_and_empty(database: Database) -> None:
    with database.connect() as conn:
        assert len(applied(conn)) == newest_version()
        assert conn.execute("select count(*) from wakeful.jobs").fetchone() == (0,)


def test_two_databases_share_nothing_and_go_even_while_they_are_used(databases: Databases) -> None:
    with databases.migrated() as one, databases.migrated() as two:
        with one.connect() as conn:
            conn.execute("select wakeful.enqueue('mail')")
        left_open = two.connect()
        assert left_open.execute("select count(*) from wakeful.jobs").fetchone() == (0,)
    assert not exists(databases, one.name)
    assert not exists(databases, two.name)
    left_open.close()


def test_what_a_killed_run_left_behind_is_swept_by_the_next(databases: Databases) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    left = f"wakeful_test_{ended.pid}_1"
    with connect(with_database(databases.dsn, "postgres")) as conn:
        conn.execute(psycopg.sql.SQL("create database {}").format(psycopg.sql.Identifier(left)))
    Databases(databases.dsn, local=True).close()
    assert not exists(databases, left)


def test_a_template_is_swept_when_no_run_can_have_begun_with_it(databases: Databases) -> None:
    """At midnight the day changes under a run: its template is yesterday's."""
    days = [f"{datetime.now(UTC) - timedelta(days=ago):%Y%m%d}" for ago in (1, 2)]
    yesterdays, older = [f"wakeful_template_{day}_made_up" for day in days]
    with connect(with_database(databases.dsn, "postgres")) as conn:
        for name in (yesterdays, older):
            conn.execute(psycopg.sql.SQL("create database {}").format(psycopg.sql.Identifier(name)))
        Databases(databases.dsn, local=True).close()
        left = exists(databases, yesterdays), exists(databases, older)
        conn.execute(psycopg.sql.SQL("drop database {}").format(psycopg.sql.Identifier(yesterdays)))
    assert left == (True, False)


def test_what_a_living_run_uses_is_left_alone(databases: Databases) -> None:
    with databases.blank() as used:
        Databases(databases.dsn, local=True).close()
        assert exists(databases, used.name)


def test_databases_lie_in_memory_where_there_is_some_to_spare(databases: Databases, database: Database) -> None:
    with database.connect() as conn:
        found = conn.execute(
            "select pg_tablespace_location(dattablespace) from pg_database where datname = current_database()"
        ).fetchone()
    assert found is not None
    assert found[0].startswith(str(memory.SHARED_MEMORY)) == (databases.tablespace is not None)


def test_a_small_share_of_memory_is_left_alone(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TABLESPACE", "wakeful_nowhere")
    monkeypatch.setattr(memory, "BYTES_TO_SPARE", 1 << 62)
    with connect(with_database(databases.dsn, "postgres")) as conn:
        assert memory.reserve(conn) is None


def test_a_server_whose_memory_is_gone_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart of the machine: the data are there, the folder in memory is not."""
    open_to_all = Path(tempfile.mkdtemp())
    open_to_all.chmod(0o755)
    monkeypatch.setattr(memory, "SHARED_MEMORY", open_to_all)
    monkeypatch.setattr(memory, "BYTES_TO_SPARE", 0)
    directory = tmp_path / "server"
    settings = {"fsync": "off"}
    try:
        with connect(ensure(directory, settings=settings).dsn) as conn:
            assert memory.reserve(conn) == memory.reserve(conn) == memory.TABLESPACE
        memory.forget_what_is_lost(directory)
        assert (directory / "postgres").exists()
        [folder] = open_to_all.glob("wakeful-tests-*")
        stop(directory)
        shutil.rmtree(folder)
        memory.forget_what_is_lost(directory)
        assert not (directory / "postgres").exists()
        with connect(ensure(directory, settings=settings).dsn) as conn:
            assert memory.reserve(conn) == memory.TABLESPACE
    finally:
        stop(directory)
        shutil.rmtree(open_to_all)


def test_without_pytests_cache_a_sentence_says_so(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "test_one.py").write_text("def test_one(database): ...")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    env = {name: value for name, value in os.environ.items() if name not in ("WAKEFUL_TEST_DSN", "PYTEST_ADDOPTS")}
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert "wakeful keeps its test server in pytest's cache: leave that on" in ended.stdout
    assert "AttributeError" not in ended.stdout
