"""Migrators at once: one of them does the work, the others find it done."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.db.small_migrations import Write, tables
from wakeful.database.migrations import applied, down, up
from wakeful.testing import Database

ROUNDS = 60
MIGRATORS = 4


def test_migrators_at_once_end_with_one_migration(blank_database: Database, write: Write) -> None:
    write("0001_core", "create table wakeful.one (id int primary key);", "drop table wakeful.one;")
    directory = write("0002_more", "insert into wakeful.one values (1);", "delete from wakeful.one;")
    start = threading.Barrier(MIGRATORS)
    applied_by: list[tuple[int, int]] = []

    def migrate(number: int) -> None:
        with blank_database.connect() as conn:
            for _ in range(ROUNDS):
                start.wait(60)
                applied_by.extend((number, migration.version) for migration in up(conn, directory=directory))
                start.wait(60)
                if number == 0:
                    assert conn.execute("select count(*) from wakeful.one").fetchone() == (1,)
                    assert [line.version for line in applied(conn)] == [1, 2]
                    down(conn, 0, directory=directory)

    with ThreadPoolExecutor(MIGRATORS) as threads:
        for done in [threads.submit(migrate, number) for number in range(MIGRATORS)]:
            done.result()
    assert len(applied_by) == 2 * ROUNDS


def test_migrators_in_both_directions_never_leave_a_half(blank_database: Database, three: Path) -> None:
    def there_and_back(_: int) -> None:
        with blank_database.connect() as conn:
            up(conn, directory=three)
            down(conn, 0, directory=three)

    with ThreadPoolExecutor(MIGRATORS) as threads:
        list(threads.map(there_and_back, range(ROUNDS)))
    with blank_database.connect() as conn:
        up(conn, directory=three)
        assert tables(conn) == {"one", "two", "three", "migration"}
