"""Schedules as they travel: when, what, which slots are due, and what is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

Misfire = Literal["latest", "skip", "all"]
"""What becomes of slots that passed while nobody was there: the newest is run, or none, or all (up to a cap)."""


@dataclass(frozen=True, slots=True)
class Cron:
    """The moments that a cron line names, in the wall-clock time of a zone."""

    line: str
    tz: str = "UTC"


@dataclass(frozen=True, slots=True)
class Every:
    """Moments at a fixed distance, counted from when the schedule was made."""

    interval: timedelta


Timing = Cron | Every


@dataclass(frozen=True, slots=True)
class Declaration:
    """A schedule as it is asked for. `payload` and `options` are JSON texts."""

    name: str
    task: str
    timing: Timing
    payload: str
    queue: str | None = None
    options: str = "{}"
    misfire: Misfire = "latest"
    cap: int = 100
    version: int = 0


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule with a slot that has come, as it was read at `now`, which is the database's clock.

    Slots up to `since` are not made up for; `anchor` is where an interval counts from.
    """

    name: str
    timing: Timing
    misfire: Misfire
    cap: int
    anchor: datetime
    since: datetime
    last_slot: datetime | None
    revision: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Firing:
    """The slots to be taken, oldest first, and the one after them; None when none will come."""

    name: str
    revision: int
    last_slot: datetime | None
    slots: tuple[datetime, ...]
    next_slot: datetime | None


Answer = Literal["fired", "lost", "busy", "failed"]


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of a firing: `lost` when another worker had fired, or someone had changed the schedule."""

    name: str
    answer: Answer
    job_id: UUID | None
    jobs: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """A schedule as it is read.

    `declared`: a worker is there that fires it. `source`: `code` for those that `@app.schedule` declares.
    """

    name: str
    task: str
    cron: str | None
    every: timedelta | None
    tz: str
    paused: bool
    next_at: datetime | None
    last_slot: datetime | None
    last_job_id: UUID | None
    misfire: str
    cap: int
    queue: str | None
    payload: Mapping[str, Any]
    options: Mapping[str, Any]
    source: str
    version: int
    declared: bool
    created_at: datetime
    changed_at: datetime
    changed_by: str
    reason: str | None
