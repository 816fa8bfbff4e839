"""What the database knows of its own schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from wakeful.statements.statement import Row, Statement

OLDEST_SCHEMA = 1
"""The lowest schema version that this code can work with. It is raised one release after the migration that
brought what it needs, so that workers of two releases run side by side."""


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """A line of the ledger."""

    version: int
    name: str
    checksum: str
    applied_at: datetime
    breaking: bool


def applied_migrations() -> Statement[tuple[AppliedMigration, ...]]:
    """The ledger, oldest first. Fails where there is no schema yet."""
    return Statement(
        "select version, name, checksum, applied_at, breaking from wakeful.migration order by version",
        {},
        _decode_ledger,
    )


def ledger_exists() -> Statement[bool]:
    """Whether this database has a ledger."""
    # Asked of the catalogue's rows: to_regclass answers from a cache that knows nothing yet of what another
    # session has committed, not even under a lock that waited for it.
    return Statement(
        """
        select exists (
            select from pg_catalog.pg_class c
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'wakeful' and c.relname = 'migration')
        """,
        {},
        lambda rows: bool(rows[0][0]),
    )


def strangers(ours: Sequence[str]) -> Statement[tuple[str, ...]]:
    """Tables and views in our schema that are not ours: a role named `wakeful` makes its tables there."""
    return Statement(
        """
        select c.relname::text
        from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'wakeful' and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
            and c.relname <> all (%(ours)s::text[])
        order by 1
        """,
        {"ours": list(ours)},
        lambda rows: tuple(row[0] for row in rows),
    )


def _decode_ledger(rows: Sequence[Row]) -> tuple[AppliedMigration, ...]:
    return tuple(AppliedMigration(*row) for row in rows)
