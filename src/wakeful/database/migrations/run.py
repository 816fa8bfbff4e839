"""The migrator: each migration in a transaction of its own, one migrator at a time, never long in the way."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable

from wakeful.database.fetch import fetch, translated
from wakeful.database.migrations.files import SHIPPED, Migration, newest_version, read_migrations
from wakeful.database.migrations.plan import MigrationStatus, plan, statuses
from wakeful.database.migrations.script import OPENING, Direction, body, script
from wakeful.database.sqlstates import sentence
from wakeful.statements.schema import AppliedMigration, applied_migrations, ledger_exists, strangers
from wakeful.values.errors import DatabaseUnavailable, MigrationError, Refused, SchemaMismatch, WakefulError

Report = Callable[[Migration], None]

ATTEMPTS = 6
OLDEST_SERVER = 150000
_NAME = re.compile(r"\bwakeful\.(\w+)")


def up(
    conn: psycopg.Connection[Any],
    to: int | None = None,
    *,
    directory: Path = SHIPPED,
    report: Report | None = None,
) -> tuple[Migration, ...]:
    """Apply what is missing, up to version `to`, and tell what this call applied. Idempotent."""
    return _Journey(conn, "up", to, read_migrations(directory)).run(report)


def down(
    conn: psycopg.Connection[Any], to: int, *, directory: Path = SHIPPED, report: Report | None = None
) -> tuple[Migration, ...]:
    """Take back every migration above version `to`, the newest first, and tell which. Keeps users' jobs."""
    return _Journey(conn, "down", to, read_migrations(directory)).run(report)


def status(conn: psycopg.Connection[Any], *, directory: Path = SHIPPED) -> tuple[MigrationStatus, ...]:
    """Every migration that the code or the database knows. Locks nothing, writes nothing."""
    return statuses(read_migrations(directory), applied(conn))


def sql(direction: Direction, start: int | None = None, to: int | None = None, *, directory: Path = SHIPPED) -> str:
    """What `up` or `down` would run between two versions, for a DBA to read and run. Asks no database."""
    newest = newest_version(directory)
    if direction == "up":
        low, high = start or 0, newest if to is None else to
    else:
        low, high = to or 0, newest if start is None else start
    between = [m for m in read_migrations(directory) if low < m.version <= high]
    return script(between if direction == "up" else reversed(between), direction)


def applied(conn: psycopg.Connection[Any]) -> tuple[AppliedMigration, ...]:
    """The ledger; empty where there is none."""
    try:
        return fetch(conn, applied_migrations()) if fetch(conn, ledger_exists()) else ()
    except SchemaMismatch:
        # Another migrator took it away between the two questions.
        return ()


@dataclass(frozen=True, slots=True)
class _Journey:
    conn: psycopg.Connection[Any]
    direction: Direction
    to: int | None
    known: tuple[Migration, ...]

    def run(self, report: Report | None) -> tuple[Migration, ...]:
        _check_connection(self.conn)
        done = []
        while ahead := self._ahead():
            migration = self._step_patiently(ahead[0])
            if migration:
                done.append(migration)
                if report:
                    report(migration)
        return tuple(done)

    def _ahead(self) -> tuple[Migration, ...]:
        return plan(self.direction, self.known, applied(self.conn), self.to)

    def _step_patiently(self, expected: Migration) -> Migration | None:
        for attempt in range(ATTEMPTS):
            try:
                return self._step()
            except (LockNotAvailable, DeadlockDetected):
                # The users' queries that queued up behind our lock request go first.
                time.sleep(random.uniform(0.1, 0.2) * 2**attempt)
        raise MigrationError(
            f"Migration {expected.label} gave up after {ATTEMPTS} tries: other sessions hold locks that it "
            "needs. Nothing was changed; end long transactions, then run it again.",
            migration=expected.label,
        )

    def _step(self) -> Migration | None:
        """The next migration in one transaction; None when another migrator did it while this one waited."""
        with self.conn.transaction():
            self.conn.execute(OPENING, prepare=False)
            ahead = self._ahead()
            if not ahead:
                return None
            if self.direction == "down" and ahead[0].version == 1:
                self._check_strangers()
            text = body(ahead[0], self.direction)
            try:
                self.conn.execute(text, prepare=False)
            except (LockNotAvailable, DeadlockDetected):
                raise
            except psycopg.Error as error:
                raise _failure(ahead[0], text, error) from error
        return ahead[0]

    def _check_strangers(self) -> None:
        """The last step down takes the whole schema away: nothing of anybody else's may be in it."""
        ours = {name for migration in self.known for name in _NAME.findall(migration.up)}
        if found := fetch(self.conn, strangers(sorted({"migration", *ours}))):
            raise MigrationError(
                f"The schema wakeful also holds what is not wakeful's: {', '.join(found)}. Move it away "
                f"first: `alter table wakeful.{found[0]} set schema public`.",
            )


def _failure(migration: Migration, text: str, error: psycopg.Error) -> WakefulError:
    ours = translated(error)
    if isinstance(ours, DatabaseUnavailable | Refused):
        return ours
    line = text.count("\n", 0, int(error.diag.statement_position or 0)) + 1
    return MigrationError(
        f"Migration {migration.label} failed near line {line} of its SQL, and changed nothing: "
        f"{sentence(error.diag.message_primary or str(error))}",
        migration=migration.label,
    )


def _check_connection(conn: psycopg.Connection[Any]) -> None:
    if conn.info.server_version < OLDEST_SERVER:
        raise MigrationError(
            f"wakeful needs PostgreSQL 15 or later, and this server is {conn.info.server_version // 10000}. "
            "Upgrade the server, or use the embedded one (`wakeful db start`)."
        )
    if not conn.autocommit:
        raise MigrationError("Migrations need a connection in autocommit mode: open it with autocommit=True.")
