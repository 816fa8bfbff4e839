"""What a worker has done, for those who ask at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wakeful.values.report import metrics_summary
from wakeful.worker.limits import Limit


@dataclass(slots=True)
class Tally:
    """Counts of one task."""

    processed: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(slots=True)
class Summary:
    """Counts of attempts by how they went. Snoozed, released and cancelled ones are processed, and neither of both.

    `limit` is the one that ended the work, None when something else did.
    """

    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    by_task: dict[str, Tally] = field(default_factory=dict)
    limit: Limit | None = None
    seconds: float = 0.0
    counters: dict[str, float] = field(default_factory=dict)

    def include(self, other: Summary) -> None:
        """The counts of another worker."""
        self.processed += other.processed
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.seconds += other.seconds
        for name, number in other.counters.items():
            self.counters[name] = self.counters.get(name, 0) + number
        for task, counted in other.by_task.items():
            tally = self.by_task.setdefault(task, Tally())
            tally.processed += counted.processed
            tally.succeeded += counted.succeeded
            tally.failed += counted.failed

    def add(
        self,
        task: str,
        succeeded: bool,
        failed: bool,
        seconds: float = 0.0,
        counted: Mapping[str, float] | None = None,
    ) -> None:
        """One attempt more, and what its handler counted."""
        self.seconds += seconds
        if counted:
            for name, number in counted.items():
                self.counters[name] = self.counters.get(name, 0) + number
        tally = self.by_task.get(task)
        if tally is None:
            tally = self.by_task[task] = Tally()
        tally.processed += 1
        self.processed += 1
        if succeeded:
            tally.succeeded += 1
            self.succeeded += 1
        elif failed:
            tally.failed += 1
            self.failed += 1

    def metrics(self) -> dict[str, Any]:
        """The counts under a simpler worker's names."""
        return metrics_summary(self.processed, self.succeeded, self.failed, self.seconds, self.counters)
