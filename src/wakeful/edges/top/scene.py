"""What `top` shows, read in one go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from wakeful.statements import metrics, policy, read, read_fleet
from wakeful.statements.statement import Statement
from wakeful.values.job import JobReport
from wakeful.values.report import BreakerReport, DeadLetter, QueueReport, TaskMetrics, WorkerReport

T = TypeVar("T")
MOST_ROWS = 50


class Asks(Protocol):
    """Something that runs statements."""

    def run(self, statement: Statement[T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Scene:
    """The queue at one moment. `runs` are all since `top` was started."""

    at: datetime
    runs: int
    queues: list[QueueReport]
    workers: list[WorkerReport]
    running: list[JobReport]
    dead: list[DeadLetter]
    tasks: list[TaskMetrics]
    breakers: list[BreakerReport]


def look(asks: Asks, since: datetime | None) -> Scene:
    """Read everything; `since` None: from now on."""
    at, runs = asks.run(metrics.runs_since(since))
    everything = read.JobFilter()
    return Scene(
        at,
        runs,
        asks.run(read_fleet.queues()),
        asks.run(read_fleet.workers()),
        asks.run(read.jobs(read.JobFilter(states=["running"]), limit=MOST_ROWS)),
        asks.run(read_fleet.dead_letters(everything, acknowledged=False, limit=MOST_ROWS)),
        asks.run(metrics.by_task(timedelta(hours=1))),
        asks.run(policy.breakers()),
    )
