"""`wakeful migrate sql`: what a DBA runs with psql is what the migrator would run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.db.small_migrations import tables
from tests.upgrade.catalogue import catalogue
from wakeful.database.embedded.binaries import folder_of_wheel
from wakeful.database.migrations import applied, down, sql, status, up
from wakeful.testing import Database, Databases


def psql(database: Database, script: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("psql", path=f"{folder_of_wheel() or ''}:{os.environ['PATH']}")
    assert program, "no psql, neither in the wheel nor in PATH"
    return subprocess.run(
        [program, "--no-psqlrc", "--quiet", "--dbname", database.dsn],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_script_gives_the_schema_that_the_migrator_gives(databases: Databases) -> None:
    with databases.blank() as by_hand, databases.blank() as by_migrator:
        ran = psql(by_hand, sql("up"))
        assert ran.returncode == 0, ran.stderr
        with by_hand.connect() as conn, by_migrator.connect() as other:
            up(other)
            assert catalogue(conn) == catalogue(other)
            assert {line.state for line in status(conn)} == {"applied"}
            assert up(conn) == ()


def test_the_script_back_gives_what_the_migrator_gives(blank_database: Database, three: Path) -> None:
    with blank_database.connect() as conn:
        up(conn, directory=three)
        assert psql(blank_database, sql("down", to=1, directory=three)).returncode == 0
        assert tables(conn) == {"one", "migration"}
        assert psql(blank_database, sql("down", start=1, to=0, directory=three)).returncode == 0
        assert conn.execute("select to_regnamespace('wakeful')").fetchone() == (None,)


def test_a_script_that_was_run_before_stops_without_harm(blank_database: Database, three: Path) -> None:
    with blank_database.connect() as conn:
        up(conn, 1, directory=three)
        conn.execute("insert into wakeful.one values (7)")
        again = psql(blank_database, sql("up", directory=three))
        assert again.returncode == 3
        assert "duplicate key" in again.stderr
        assert conn.execute("select * from wakeful.one").fetchall() == [(7,)]
        assert [line.version for line in applied(conn)] == [1]
        assert psql(blank_database, sql("up", start=1, directory=three)).returncode == 0
        assert [line.version for line in applied(conn)] == [1, 2, 3]
        down(conn, 0, directory=three)


def test_every_transaction_of_a_script_takes_the_lock_and_is_short_of_patience(three: Path) -> None:
    text = sql("up", directory=three)
    for phrase in ("begin;", "pg_advisory_xact_lock", "set local lock_timeout = '2s';", "commit;"):
        assert text.count(phrase) == 3
    assert sql("up", start=3, directory=three) == ""
