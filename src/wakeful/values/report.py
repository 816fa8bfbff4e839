"""What is read of the system: counts, dead letters, queues, breakers and workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

ENTITY_COUNTERS = ("requested", "found", "processed", "upserted")


@dataclass(frozen=True, slots=True)
class Stats:
    """How many jobs are in each state."""

    scheduled: int
    ready: int
    running: int
    completed: int
    dead: int
    cancelled: int

    def in_other_words(self) -> dict[str, int]:
        """The counts in a simpler queue's words: pending, processing, completed, failed, cancelled, total."""
        counts = {
            "pending": self.scheduled + self.ready,
            "processing": self.running,
            "completed": self.completed,
            "failed": self.dead,
            "cancelled": self.cancelled,
        }
        return {**counts, "total": sum(counts.values())}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that failed for good, and what became of that."""

    id: UUID
    task: str
    queue: str
    tenant: str | None
    correlation_id: UUID
    error_code: str
    error_message: str
    error_details: Any
    died_at: datetime
    acknowledged: bool
    acknowledged_by: str | None
    acknowledged_at: datetime | None
    requeued_as: UUID | None
    requeued_at: datetime | None
    attempt: int
    original_job: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueueReport:
    """A queue that has live jobs, or that someone has steered; since when its longest-ready job is ready."""

    queue: str
    scheduled: int
    ready: int
    running: int
    oldest_ready_at: datetime | None
    paused: bool
    changed_by: str | None
    changed_at: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class TaskSwitch:
    """A task that someone has steered; `enqueuing` None: as the task itself says."""

    task: str
    paused: bool
    enqueuing: bool | None
    changed_by: str
    changed_at: datetime
    reason: str | None


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker on the list. `queues` None: all of them."""

    id: UUID
    name: str
    queues: tuple[str, ...] | None
    tasks: tuple[str, ...]
    slots: int
    running: int
    alive: bool
    asleep: bool
    started_at: datetime
    beat_at: datetime
    lease_expires_at: datetime
    details: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs of a task are ready and run, and for how many seconds the oldest ready one waits."""

    task: str
    ready: int
    running: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """A task's runs by outcome, and percentiles of run and queue time in seconds; None where nothing ran."""

    task: str
    completed: int
    failed: int
    dead: int
    others: int
    average_seconds: float | None
    run_p50: float | None
    run_p95: float | None
    run_p99: float | None
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant used of a task on a UTC day: runs by outcome, and their seconds."""

    day: date
    tenant: str
    task: str
    outcome: str
    runs: int
    seconds: float


def metrics_summary(
    jobs: int, succeeded: int, failed: int, seconds: float, counters: Mapping[str, float]
) -> dict[str, Any]:
    """Totals under a simpler worker's names. Durations are seconds; a failed job has at least one error."""
    entities = {f"total_entities_{name}": counters.get(name, 0) for name in ENTITY_COUNTERS}
    return {
        "total_jobs": jobs,
        "successful_jobs": succeeded,
        "failed_jobs": failed,
        "success_rate": succeeded / jobs if jobs else 0.0,
        **entities,
        "total_errors": max(counters.get("errors", 0), failed),
        "average_duration": seconds / jobs if jobs else 0.0,
        "counters": dict(counters),
    }


@dataclass(frozen=True, slots=True)
class Entry:
    """A breaker's answer to who wants to make a call: `wait` seconds, or None for yes.

    `listens`: a success has to be told; `probing`: this call decides.
    """

    wait: float | None
    listens: bool
    probing: bool


@dataclass(frozen=True, slots=True)
class BreakerReport:
    """A circuit breaker as the view `breakers` shows it."""

    name: str
    state: str
    failure_count: int
    success_count: int
    threshold: int
    last_failure_at: datetime | None
    opened_at: datetime | None
    half_opened_at: datetime | None
    next_probe_at: datetime | None
    updated_at: datetime
    tasks: tuple[str, ...]
