"""How many connections a server has."""

from __future__ import annotations

from tests.sessions import until
from wakeful.testing import Database

OPEN = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


def gone(database: Database) -> None:
    """Returns once the server has seen all connections but this one go."""
    with database.connect() as conn:
        until(lambda: conn.execute(OPEN).fetchone() == (0,), 5)
