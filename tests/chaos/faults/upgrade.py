"""A release comes and goes, while both versions work."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import cycle
from typing import ClassVar

from tests.chaos.faults.fault import Fault
from tests.chaos.release import NextRelease
from tests.chaos.stage import WORKERS, Stage
from tests.sessions import query
from tests.worker.processes import ROOT, until
from wakeful.database.connect import connect
from wakeful.database.migrations import down, newest_version, up


class Upgrade(Fault):
    """N−1 → N → N−1: the schema goes up, the workers follow one by one; they go back, and then the schema does."""

    name = "upgrade"
    says = (
        "the schema is migrated up, workers are replaced by those of the next release one by one, then back, then the"
        " schema down; one in two is killed instead of told to stop. The next release is this one with a migration"
        " that adds a column to the busiest table and a second version of every verb of the workers"
    )
    lease = 3.0
    pause = (0.3, 1.0)
    settings: ClassVar = {"track_functions": "all"}

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        with stage.session() as db:
            self._next = NextRelease(stage.history.producers.parent, db)
        there, back = [self._forward] * WORKERS, [self._back] * WORKERS
        self._cycle: list[Callable[[], None]] = [self._up, *there, *back, self._down]
        self._steps = cycle(self._cycle)
        self._done = 0
        self._calls: dict[str, int] = {}

    def inject(self) -> int:
        """The next step."""
        next(self._steps)()
        self._done += 1
        return 1

    def heal(self) -> None:
        """The cycle is seen through to its end: the old release on the old schema."""
        while self._done % len(self._cycle):
            self.inject()
        super().heal()

    def notes(self) -> list[str]:
        """That both have worked."""
        old, new = self._calls.get("claim_1", 0), self._calls.get("claim_2", 0)
        cycles = self._done // len(self._cycle)
        return [f"{cycles} times up and down again; {old} claims by the old release, {new} by the next"]

    def complaints(self) -> list[str]:
        """Nothing is shown by a release that did not work."""
        return [] if self._calls.get("claim_2") else ["the next release claimed nothing"]

    def _up(self) -> None:
        with connect(self.stage.dsn) as conn:
            assert up(conn, directory=self._next.migrations)

    def _down(self) -> None:
        self._count()
        with connect(self.stage.dsn) as conn:
            down(conn, newest_version(), directory=self._next.migrations)

    def _forward(self) -> None:
        self.stage.variables["PYTHONPATH"] = f"{self._next.source}:{ROOT}"
        self._replace()

    def _back(self) -> None:
        self.stage.variables.pop("PYTHONPATH", None)
        self._replace()

    def _replace(self) -> None:
        """The one that has worked longest goes, another comes."""
        oldest = self.stage.workers[0]
        if self.stage.dice.random() < 0.5:
            oldest.kill()
        else:
            oldest.signal(signal.SIGTERM)
            oldest.ends(60)
        self.stage.fill()
        newest = self.stage.workers[-1]
        until(lambda: "worker_started" in newest.log or newest.process.poll() is not None, 60)

    def _count(self) -> None:
        with self.stage.session() as db:
            rows = query(
                db,
                "select funcname::text as name, calls from pg_stat_user_functions where schemaname = 'wakeful'"
                " and funcname in ('claim_1', 'claim_2')",
            )
        for row in rows:
            # What is dropped takes its count with it; what stays counts on.
            kept = self._calls.get(row["name"], 0) if row["name"] == "claim_2" else 0
            self._calls[row["name"]] = kept + row["calls"]
