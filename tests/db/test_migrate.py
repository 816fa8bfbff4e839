"""The migrator on small migrations of its own: order, checksums, locks, one winner."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.db.small_migrations import Write, tables
from wakeful.database.migrations import applied, down, newest_version, read_migrations, status, up
from wakeful.testing import Database
from wakeful.values.errors import InvalidOption, MigrationError, Refused, SchemaMismatch


def test_up_applies_everything_once_and_down_takes_it_back(blank_database: Database, three: Path) -> None:
    with blank_database.connect() as conn:
        assert [m.label for m in up(conn, directory=three)] == ["0001_core", "0002_more", "0003_last"]
        assert up(conn, directory=three) == ()
        assert tables(conn) == {"one", "two", "three", "migration"}
        assert [(line.version, line.name, line.breaking) for line in applied(conn)] == [
            (1, "core", False),
            (2, "more", True),
            (3, "last", False),
        ]
        assert [m.label for m in down(conn, 1, directory=three)] == ["0003_last", "0002_more"]
        assert tables(conn) == {"one", "migration"}
        assert down(conn, 1, directory=three) == ()
        down(conn, 0, directory=three)
        assert conn.execute("select to_regnamespace('wakeful')").fetchone() == (None,)
        assert applied(conn) == ()
        assert len(up(conn, directory=three)) == 3


def test_up_can_stop_on_the_way(blank_database: Database, three: Path) -> None:
    with blank_database.connect() as conn:
        assert [m.version for m in up(conn, 2, directory=three)] == [1, 2]
        assert [line.state for line in status(conn, directory=three)] == ["applied", "applied", "pending"]
        assert [m.version for m in up(conn, directory=three)] == [3]


def test_progress_is_reported_as_it_is_made(blank_database: Database, three: Path) -> None:
    seen: list[str] = []
    with blank_database.connect() as conn:
        up(conn, directory=three, report=lambda migration: seen.append(migration.label))
    assert seen == ["0001_core", "0002_more", "0003_last"]


def test_a_target_that_is_not_there_is_refused(blank_database: Database, three: Path) -> None:
    with blank_database.connect() as conn:
        for target in (4, -1):
            with pytest.raises(InvalidOption, match="from 0 to 3"):
                up(conn, target, directory=three)


def test_a_failing_migration_changes_nothing_and_names_itself(blank_database: Database, write: Write) -> None:
    directory = write("0001_core", "create table wakeful.one ();\ncreate table wakeful.one ();")
    with blank_database.connect() as conn:
        with pytest.raises(MigrationError, match=r"0001_core failed near line .* already exists") as caught:
            up(conn, directory=directory)
        assert caught.value.migration == "0001_core"
        assert applied(conn) == ()
        assert conn.execute("select to_regnamespace('wakeful')").fetchone() == (None,)


def test_what_was_applied_before_a_failure_stays(blank_database: Database, write: Write) -> None:
    write("0001_core", "create table wakeful.one ();")
    directory = write("0002_bad", "select 1 / 0;")
    with blank_database.connect() as conn:
        with pytest.raises(MigrationError, match="0002_bad"):
            up(conn, directory=directory)
        assert [line.version for line in applied(conn)] == [1]


def test_a_file_that_changed_after_it_was_applied_is_named(blank_database: Database, write: Write) -> None:
    directory = write("0001_core", "create table wakeful.one ();")
    with blank_database.connect() as conn:
        up(conn, directory=directory)
        write("0001_core", "create table wakeful.one (more int);")
        write("0002_more", "create table wakeful.two ();")
        for move in (up, down):
            with pytest.raises(MigrationError, match="0001_core was changed after it was applied"):
                move(conn, 0, directory=directory)
        assert [line.state for line in status(conn, directory=directory)] == ["changed", "pending"]


def test_a_file_with_windows_line_ends_is_the_same_file(blank_database: Database, write: Write) -> None:
    directory = write("0001_core", "create table wakeful.one\n();\n")
    with blank_database.connect() as conn:
        up(conn, directory=directory)
        (directory / "0001_core.up.sql").write_bytes(b"create table wakeful.one\r\n();\r\n")
        read_migrations.cache_clear()
        assert up(conn, directory=directory) == ()


def test_a_database_newer_than_the_code_is_not_touched(blank_database: Database, three: Path) -> None:
    with blank_database.connect() as conn:
        up(conn, directory=three)
        for path in three.glob("0003*"):
            path.unlink()
        read_migrations.cache_clear()
        for move in (up, down):
            with pytest.raises(SchemaMismatch, match="Upgrade the wakeful package"):
                move(conn, 0, directory=three)
        assert [line.state for line in status(conn, directory=three)] == ["applied", "applied", "unknown"]


def test_a_gap_in_the_numbers_is_refused(write: Write) -> None:
    write("0001_core", "select 1;")
    directory = write("0003_late", "select 1;")
    with pytest.raises(MigrationError, match="0003_late should have number 0002"):
        newest_version(directory)


def test_a_migration_without_a_way_back_says_so(blank_database: Database, write: Write) -> None:
    directory = write("0001_core", "create table wakeful.one ();", down=None)
    with blank_database.connect() as conn:
        up(conn, directory=directory)
        with pytest.raises(MigrationError, match="0001_core has no way back"):
            down(conn, 0, directory=directory)
        assert tables(conn) == {"one", "migration"}


def test_a_table_of_somebody_elses_in_the_schema_stops_the_last_step_down(
    blank_database: Database, three: Path
) -> None:
    with blank_database.connect() as conn:
        up(conn, directory=three)
        conn.execute("create table wakeful.orders ()")
        with pytest.raises(MigrationError, match=r"not wakeful's: orders\. Move it away"):
            down(conn, 0, directory=three)
        assert tables(conn) == {"one", "migration", "orders"}
        conn.execute("alter table wakeful.orders set schema public")
        down(conn, 0, directory=three)
        assert conn.execute("select to_regclass('public.orders') is not null").fetchone() == (True,)


def test_a_user_who_may_not_create_a_schema_is_told(blank_database: Database, three: Path) -> None:
    with blank_database.connect() as conn:
        conn.execute("set role pg_monitor")
        with pytest.raises(Refused, match="Permission denied for database"):
            up(conn, directory=three)


def test_an_open_transaction_of_the_caller_is_refused(blank_database: Database, three: Path) -> None:
    with (
        psycopg.connect(blank_database.dsn) as conn,
        pytest.raises(MigrationError, match="autocommit=True"),
    ):
        up(conn, directory=three)


def test_a_lock_that_is_held_is_waited_for_in_short_tries(blank_database: Database, write: Write) -> None:
    """A long transaction delays the migration; other queries on the same table do not wait with it."""
    directory = write("0001_core", "create table wakeful.one (id int);")
    with blank_database.connect() as conn, blank_database.connect() as holder:
        up(conn, directory=directory)
        write("0002_more", "alter table wakeful.one add more int;")
        with ThreadPoolExecutor(1) as migrator:
            with holder.transaction():
                holder.execute("select * from wakeful.one")
                running = migrator.submit(up, conn, directory=directory)
                wait_for_failed_try(blank_database)
            assert [m.label for m in running.result(30)] == ["0002_more"]


def wait_for_failed_try(database: Database) -> None:
    """Until a query that came after the waiting migration got its turn while the lock was still held."""
    waiting = "select count(*) from pg_locks where not granted and relation = 'wakeful.one'::regclass"
    with database.connect() as conn:
        while conn.execute(waiting).fetchone() == (0,):
            conn.execute("select pg_sleep(0.01)")
        conn.execute("set statement_timeout = '10s'")
        conn.execute("select * from wakeful.one")
