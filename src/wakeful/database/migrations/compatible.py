"""Whether this code and this database can work together: asked once, when an app or a worker starts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg

from wakeful.database.fetch import afetch, fetch
from wakeful.database.migrations.files import newest_version
from wakeful.database.migrations.plan import mismatch
from wakeful.statements.schema import applied_migrations
from wakeful.statements.statement import Row, Statement
from wakeful.values.errors import Refused


def check_compatible(conn: psycopg.Connection[Any]) -> None:
    """Raise SchemaMismatch where the schema is missing, too old, or newer in a way that breaks this code."""
    with suppress(Refused):  # Who may not ask this may do nothing: what comes next is denied, by its own name.
        fetch(conn, compatibility())


async def acheck_compatible(conn: psycopg.AsyncConnection[Any]) -> None:
    """Raise SchemaMismatch where the schema is missing, too old, or newer in a way that breaks this code."""
    with suppress(Refused):  # As above.
        await afetch(conn, compatibility())


def compatibility(newest: int | None = None) -> Statement[None]:
    """A Statement whose decoding raises the mismatch, so that every kind of connection can ask."""
    ledger = applied_migrations()

    def decode(rows: Sequence[Row]) -> None:
        if problem := mismatch(ledger.decode(rows), newest_version() if newest is None else newest):
            raise problem

    return Statement(ledger.sql, ledger.params, decode)
