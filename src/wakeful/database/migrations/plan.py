"""What has to be done to get from the schema that is there to the one that is wanted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from wakeful.database.migrations.files import Migration
from wakeful.database.migrations.script import Direction
from wakeful.statements.schema import OLDEST_SCHEMA, AppliedMigration
from wakeful.values.errors import InvalidOption, MigrationError, SchemaMismatch

State = Literal["applied", "pending", "changed", "unknown"]


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """A line of `wakeful migrate status`. `unknown` is applied, but not by any file of this version."""

    version: int
    name: str
    state: State
    breaking: bool
    applied_at: datetime | None


def plan(
    direction: Direction,
    known: Sequence[Migration],
    applied: Sequence[AppliedMigration],
    target: int | None = None,
) -> tuple[Migration, ...]:
    """The migrations to run, in order, to reach `target` (up: the newest when None)."""
    _check_unchanged(known, applied)
    there = {line.version for line in applied}
    newest = max((migration.version for migration in known), default=0)
    if target is not None and not 0 <= target <= max(newest, *there, 0):
        raise InvalidOption("--to", f"is {target}, but the migrations go from 0 to {newest}.")
    if direction == "up":
        _check_known(known, applied)
        last = newest if target is None else target
        return tuple(m for m in known if m.version not in there and m.version <= last)
    if target is None:
        raise InvalidOption("--to", "is missing. Name the version to go back to, 0 for none.")
    above = {version for version in there if version > target}
    _check_known(known, [line for line in applied if line.version in above])
    return tuple(m for m in reversed(known) if m.version in above)


def statuses(known: Sequence[Migration], applied: Sequence[AppliedMigration]) -> tuple[MigrationStatus, ...]:
    """Every migration that the code or the database knows, oldest first."""
    ours = {migration.version: migration for migration in known}
    theirs = {line.version: line for line in applied}
    return tuple(_status(ours.get(version), theirs.get(version)) for version in sorted(ours | theirs))


def mismatch(applied: Sequence[AppliedMigration], newest: int, oldest: int = OLDEST_SCHEMA) -> SchemaMismatch | None:
    """Why code that knows versions up to `newest`, and needs `oldest`, cannot work here; None if it can."""
    found = max((line.version for line in applied), default=0)
    if not found:
        return SchemaMismatch("missing", found=0, wanted=newest)
    if found < oldest:
        return SchemaMismatch("too old", found=found, wanted=oldest)
    if any(line.breaking for line in applied if line.version > newest):
        return SchemaMismatch("too new", found=found, wanted=newest)
    return None


def _status(ours: Migration | None, theirs: AppliedMigration | None) -> MigrationStatus:
    match ours, theirs:
        case Migration(), None:
            return MigrationStatus(ours.version, ours.name, "pending", ours.breaking, None)
        case _, AppliedMigration():
            state: State = "applied" if ours else "unknown"
            if ours and ours.checksum != theirs.checksum:
                state = "changed"
            return MigrationStatus(theirs.version, theirs.name, state, theirs.breaking, theirs.applied_at)
    raise AssertionError("a version that neither side has")


def _check_unchanged(known: Sequence[Migration], applied: Sequence[AppliedMigration]) -> None:
    ours = {migration.version: migration for migration in known}
    for line in applied:
        migration = ours.get(line.version)
        if migration and migration.checksum != line.checksum:
            raise MigrationError(
                f"Migration {migration.label} was changed after it was applied to this database. "
                "Restore its file, and put the change into a migration of its own.",
                migration=migration.label,
            )


def _check_known(known: Sequence[Migration], applied: Sequence[AppliedMigration]) -> None:
    newest = max((migration.version for migration in known), default=0)
    found = max((line.version for line in applied), default=0)
    if found > newest:
        raise SchemaMismatch("too new", found=found, wanted=newest)
