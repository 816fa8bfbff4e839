"""The shape of the schema, for `wakeful doctor`. `python -m tests.upgrade.shape` writes it after a change."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from wakeful.database.fetch import fetch
from wakeful.database.migrations.files import SQL
from wakeful.statements import inspect

PATH = SQL / "shape.json"


def shape_of(conn: psycopg.Connection[Any]) -> dict[str, str]:
    """What the doctor sees there."""
    with conn.transaction():
        fetch(conn, inspect.plain_names())
        return dict(sorted(fetch(conn, inspect.shape()).items()))


def write() -> None:
    """From a database of its own, migrated to the newest version."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from wakeful.database.connect import connect
    from wakeful.database.embedded import ensure, stop
    from wakeful.database.migrations import up

    with TemporaryDirectory(prefix="wakeful-shape-") as folder:
        try:
            with connect(ensure(Path(folder)).dsn) as conn:
                up(conn)
                PATH.write_text(json.dumps(shape_of(conn), indent=1) + "\n", encoding="utf-8")
        finally:
            stop(Path(folder))


if __name__ == "__main__":
    write()
