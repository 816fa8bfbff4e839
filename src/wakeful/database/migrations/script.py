"""The SQL of a migration, whole: what the migrator runs is what `wakeful migrate sql` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from wakeful.database.migrations.files import SQL, Migration
from wakeful.values.errors import MigrationError

Direction = Literal["up", "down"]

LOCK = int.from_bytes(b"wakeful", "big")
"""The advisory lock of migrators: the bytes of our name as a number."""

# The advisory lock comes before lock_timeout: the second migrator must wait for the first, however long it
# takes, while no table lock may make the users' queries queue up behind us for more than two seconds.
OPENING = f"""set local statement_timeout = 0;
set local lock_timeout = 0;
select pg_catalog.pg_advisory_xact_lock({LOCK});
set local lock_timeout = '2s';
set local search_path = pg_catalog, pg_temp;"""
"""The first commands of every migrating transaction: its lock, its patience, its search path."""

_FAREWELL = """drop table if exists wakeful.migration;
drop schema if exists wakeful;"""


def body(migration: Migration, direction: Direction) -> str:
    """Everything after the opening that applies this migration, or takes it back."""
    return _up(migration) if direction == "up" else _down(migration)


def script(migrations: Iterable[Migration], direction: Direction) -> str:
    """A psql script that does what the migrator would do: a transaction a migration."""
    parts = [_transaction(migration, direction) for migration in migrations]
    return "\n\n".join([r"\set ON_ERROR_STOP on", *parts]) + "\n" if parts else ""


def _transaction(migration: Migration, direction: Direction) -> str:
    title = f"-- {direction} {migration.label}"
    return _joined(title, "begin;", OPENING, body(migration, direction), "commit;")


def _up(migration: Migration) -> str:
    ledger = (SQL / "ledger.sql").read_text(encoding="utf-8") if migration.version == 1 else ""
    # Recorded before it runs: a script applied twice stops here, before it can do harm.
    values = f"{migration.version}, '{migration.name}', '{migration.checksum}', {migration.breaking}".lower()
    record = f"insert into wakeful.migration (version, name, checksum, breaking)\nvalues ({values});"
    return _joined(ledger, record, migration.up)


def _down(migration: Migration) -> str:
    if migration.down is None:
        raise MigrationError(
            f"Migration {migration.label} has no way back. Restore a backup to go below it.",
            migration=migration.label,
        )
    forget = f"delete from wakeful.migration where version = {migration.version};"
    return _joined(forget, migration.down, _FAREWELL if migration.version == 1 else "")


def _joined(*parts: str) -> str:
    return "\n".join(part.strip() for part in parts if part.strip())
