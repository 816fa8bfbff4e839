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
    """Whether this database has, or had, a schema of ours."""
    return Statement(
        "select pg_catalog.to_regclass('wakeful.migration') is not null",
        {},
        lambda rows: bool(rows[0][0]),
    )


def _decode_ledger(rows: Sequence[Row]) -> tuple[AppliedMigration, ...]:
    return tuple(AppliedMigration(*row) for row in rows)
