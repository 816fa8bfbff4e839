"""Code and schema of different ages: who may work with whom, and what is said when not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wakeful.database.fetch import fetch
from wakeful.database.migrations import acheck_compatible, check_compatible, compatibility, newest_version
from wakeful.database.migrations.plan import mismatch
from wakeful.statements.schema import AppliedMigration
from wakeful.testing import Database
from wakeful.values.errors import SchemaMismatch


async def test_the_schema_that_this_code_brings_is_compatible(database: Database) -> None:
    with database.connect() as conn:
        check_compatible(conn)
    async with await database.aconnect() as aconn:
        await acheck_compatible(aconn)


async def test_a_database_without_the_schema_is_refused(blank_database: Database) -> None:
    with blank_database.connect() as conn, pytest.raises(SchemaMismatch, match="Run `wakeful migrate up`"):
        check_compatible(conn)
    async with await blank_database.aconnect() as aconn:
        with pytest.raises(SchemaMismatch) as caught:
            await acheck_compatible(aconn)
    assert caught.value.state == "missing"


@pytest.mark.parametrize("role", ["wakeful_producer", "wakeful_worker", "wakeful_viewer", "wakeful_operator"])
def test_every_role_may_ask(database: Database, role: str) -> None:
    with database.connect() as conn:
        conn.execute("select set_config('role', %s, false)", [role])
        check_compatible(conn)


def test_a_newer_schema_is_fine_unless_it_is_marked_as_breaking(database: Database) -> None:
    future = newest_version() + 1
    record = "insert into wakeful.migration (version, name, checksum, breaking) values (%s, 'future', '', %s)"
    with database.connect() as conn:
        conn.execute(record, [future, False])
        check_compatible(conn)
        conn.execute(record, [future + 1, True])
        with pytest.raises(SchemaMismatch, match="Upgrade the wakeful package") as caught:
            check_compatible(conn)
        assert (caught.value.state, caught.value.found) == ("too new", future + 1)
        # The release that brought those migrations knows them.
        fetch(conn, compatibility(newest=future + 1))


def test_an_older_schema_is_fine_down_to_the_oldest_that_the_code_can_call() -> None:
    applied = [AppliedMigration(version, "m", "", datetime.now(UTC), True) for version in (1, 2)]
    assert mismatch(applied, newest=3, oldest=2) is None
    problem = mismatch(applied, newest=3, oldest=3)
    assert problem is not None
    assert (problem.state, problem.found, problem.wanted) == ("too old", 2, 3)
    assert "wakeful migrate up" in str(problem)
