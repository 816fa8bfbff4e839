"""`sql/schema` is today's truth, and the migrations together lead exactly there."""

from __future__ import annotations

from difflib import unified_diff

from tests.upgrade.catalogue import catalogue
from wakeful.database.migrations import up
from wakeful.database.migrations.files import SQL
from wakeful.edges.testing import Databases


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
