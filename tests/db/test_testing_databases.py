"""The tests' own databases: apart from each other, and gone afterwards."""

from __future__ import annotations

import subprocess
import sys

import psycopg

from wakeful.database.address import with_database
from wakeful.database.connect import connect
from wakeful.database.migrations import applied, newest_version
from wakeful.edges.testing import Database, Databases


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


def test_what_a_living_run_uses_is_left_alone(databases: Databases) -> None:
    with databases.blank() as used:
        Databases(databases.dsn, local=True).close()
        assert exists(databases, used.name)
