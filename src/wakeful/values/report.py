"""What is read of the system: counts, dead letters, queues and workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


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
