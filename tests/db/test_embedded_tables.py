"""What users create on the embedded server is theirs."""

from __future__ import annotations

from pathlib import Path

import psycopg

from wakeful.database.embedded import ensure, stop
from wakeful.database.migrations import up


def test_a_users_table_does_not_land_in_the_schema_of_the_jobs(tmp_path: Path) -> None:
    server = ensure(tmp_path / "server", settings={"fsync": "off"})
    try:
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            up(conn)
            conn.execute("create table account (id integer)")
            found = conn.execute("select schemaname from pg_tables where tablename = 'account'").fetchall()
        assert found == [("public",)]
    finally:
        stop(tmp_path / "server")
