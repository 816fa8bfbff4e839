"""Migrations of a few tables, for tests of the migrator itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from wakeful.database.migrations import read_migrations

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a migration into the test's own folder; a later call may change it."""

    def write(label: str, up: str, down: str | None = "select 1;") -> Path:
        (tmp_path / f"{label}.up.sql").write_text(up, encoding="utf-8")
        if down is not None:
            (tmp_path / f"{label}.down.sql").write_text(down, encoding="utf-8")
        read_migrations.cache_clear()
        return tmp_path

    return write


@pytest.fixture
def three(write: Write) -> Path:
    """Three migrations, each with a table of its own, the second marked as breaking."""
    write("0001_core", "create table wakeful.one (id int);", "drop table wakeful.one;")
    write("0002_more", "-- More.\n-- breaking: yes\ncreate table wakeful.two ();", "drop table wakeful.two;")
    return write("0003_last", "create table wakeful.three (a text default '%s');", "drop table wakeful.three;")


def tables(conn: psycopg.Connection[tuple[object, ...]]) -> set[str]:
    query = "select tablename::text from pg_tables where schemaname = 'wakeful'"
    return {str(name) for (name,) in conn.execute(query).fetchall()}
