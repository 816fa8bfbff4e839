"""`sql/schema` is today's truth, and the migrations together lead exactly there."""

from __future__ import annotations

import json
from difflib import unified_diff

import pytest

from tests.upgrade.catalogue import catalogue
from tests.upgrade.shape import PATH, shape_of
from wakeful.database.migrations import up
from wakeful.database.migrations.files import SQL
from wakeful.testing import Database, Databases


def test_all_migrations_together_give_the_schema(databases: Databases) -> None:
    with databases.blank() as from_files, databases.blank() as from_migrations:
        with from_migrations.connect() as conn:
            up(conn)
            migrated = catalogue(conn)
        with from_files.connect() as conn:
            conn.execute("set search_path = pg_catalog, pg_temp")
            for path in (SQL / "ledger.sql", *sorted((SQL / "schema").glob("*.sql"))):
                conn.execute(path.read_text(encoding="utf-8"), prepare=False)
            written = catalogue(conn)
    difference = list(unified_diff(written, migrated, "sql/schema", "sql/migrations", lineterm="", n=1))
    assert not difference, "\n".join(difference)
    assert len(written) > 100


def test_the_shape_that_the_doctor_knows_is_the_one_that_migrations_give(database: Database) -> None:
    """On every supported server: definitions must not be written differently by one of them."""
    with database.connect() as conn:
        found = shape_of(conn)
    assert found == json.loads(PATH.read_text(encoding="utf-8")), "Write it anew: python -m tests.upgrade.shape"


@pytest.mark.parametrize(
    "change",
    [
        "alter table wakeful.job add column extra int",
        "alter table wakeful.job alter column id set default gen_random_uuid()",
        "create index on wakeful.job (id, task)",
        "alter table wakeful.worker add constraint slots_some check (slots > 0)",
        "alter function wakeful.now() set work_mem = '1MB'",
        "create function wakeful.extra() returns int language sql return 1",
        "create view wakeful.extra as select 1 as one",
        "alter table wakeful.job disable trigger job_pokes_at_commit",
        "alter table wakeful.job set (fillfactor = 42)",
        "grant select on wakeful.job to wakeful_viewer",
        "revoke execute on function wakeful.now() from wakeful_viewer",
        "comment on function wakeful.now() is 'something else'",
        "create domain wakeful.extra as int check (value > 0)",
        "create sequence wakeful.extra",
    ],
)
def test_the_comparison_sees_every_kind_of_change(database: Database, change: str) -> None:
    with database.connect() as conn:
        before = catalogue(conn)
        conn.execute(change)
        assert catalogue(conn) != before
