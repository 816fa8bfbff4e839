"""A run of the import: batches, counted, until the table has no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg

from wakeful.database.connect import connect
from wakeful.database.legacy.catalogue import Found, look_up
from wakeful.database.legacy.compose import Choice
from wakeful.database.legacy.move import Batch, kept, moment_before, move, move_back, states
from wakeful.database.migrations import check_compatible
from wakeful.database.session import Database
from wakeful.values.legacy import LegacyTable

ROWS_AT_ONCE = 500
ACTIONS = ("inserted", "joined", "completed", "dead", "known")


@dataclass
class Report:
    """What a run has done so far."""

    source: str
    moved: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    """What did not go back, by the reason."""

    def add(self, batch: Batch) -> None:
        """Count a batch."""
        self.moved += batch.moved
        self.actions += batch.actions
        self.refused.update(batch.refused)

    def told(self) -> dict[str, object]:
        """As one document."""
        refused = [{"key": key, "problem": problem} for key, problem in self.refused.items()]
        counts = {name: self.actions[name] for name in ACTIONS}
        about = {"refused": refused, "left": self.left, "kept": self.kept}
        return {"source": self.source, "moved": self.moved, **counts, **about}


class Importer:
    """A table and the connection to it. Blocks; each batch is a transaction of its own."""

    def __init__(self, conn: psycopg.Connection[Any], found: Found, size: int) -> None:
        self._conn = conn
        self._found = found
        self._size = size
        self.report = Report(found.mapping.source)

    def run(
        self,
        *,
        finished: bool = False,
        aged: timedelta | None = None,
        keep: bool = True,
        progress: Callable[[Report], None] = lambda report: None,
    ) -> Report:
        """Move what is there, and with `aged` rows in progress whose claim is so old. Without `keep` it is undone."""
        before = None if aged is None else moment_before(self._conn, aged)
        for batch in move(self._conn, self._found, Choice(finished, before), self._size, keep=keep):
            self.report.add(batch)
            progress(self.report)
        self.report.left = states(self._conn, self._found)
        return self.report

    def back(self, actor: str | None = None) -> Report:
        """Return what was never started to the table."""
        for batch in move_back(self._conn, self._found, self._size, actor):
            self.report.moved += batch.moved
            self.report.refused.update(batch.refused)
        self.report.kept = kept(self._conn, self._found)
        self.report.left = states(self._conn, self._found)
        return self.report


@contextmanager
def importer(dsn: str | None, mapping: LegacyTable, size: int = ROWS_AT_ONCE) -> Iterator[Importer]:
    """Connect, look the table up, and be ready to run."""
    with connect(Database(dsn).dsn, name="wakeful import") as conn:
        check_compatible(conn)
        yield Importer(conn, look_up(conn, mapping), size)
