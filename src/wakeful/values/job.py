"""A job in its three shapes: as it is asked for, as it was claimed, and as it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from wakeful.values.wakeup import Position


class JobId(UUID):
    """The id of an enqueued job, which also says what enqueuing did: `inserted`, `resent`, `skipped`, ….

    Equal to, and hashed like, the plain UUID.
    """

    __slots__ = ("action",)

    action: str

    def __init__(self, value: UUID, action: str) -> None:
        super().__init__(int=value.int)
        object.__setattr__(self, "action", action)

    def __reduce__(self) -> tuple[type[JobId], tuple[UUID, str]]:
        """Pickled as its two parts: UUID's own state knows nothing of the action."""
        return JobId, (UUID(int=self.int), self.action)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job as it is asked for. `payload` and `metadata` are JSON texts; None stands for the default."""

    id: UUID
    task: str
    payload: str
    queue: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    max_attempts: int | None = None
    dedup_key: str | None = None
    dedup: str | None = None
    tenant: str | None = None
    correlation_id: UUID | None = None
    parent_id: UUID | None = None
    created_by: str | None = None
    metadata: str | None = None
    expires_at: datetime | None = None
    default_off: bool | None = None


class Job(NamedTuple):
    """A claimed job: what a handler is given, and what settling it needs.

    `payload`, `metadata`, `attempts` and `saved` are JSON texts: most jobs need only the first of them. A tuple,
    because thousands are made in a second.
    """

    id: UUID
    task: str
    queue: str
    payload: str
    attempt: int
    max_attempts: int
    epoch: int
    rank: int
    ready_at: datetime
    created_at: datetime
    started_at: datetime
    correlation_id: UUID
    parent_id: UUID | None
    origin_id: UUID | None
    tenant: str | None
    created_by: str | None
    metadata: str | None
    attempts: str | None
    saved: str | None
    worker_id: UUID

    @property
    def priority(self) -> int:
        """From −100 to 100, the higher first."""
        return -self.rank

    @property
    def position(self) -> Position:
        """Its place in line."""
        return Position(self.rank, self.ready_at, self.id)


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job as the view `jobs` shows it, in whichever state it is."""

    id: UUID
    task: str
    queue: str
    state: str
    priority: int
    payload: Mapping[str, Any]
    result: Any
    attempt: int
    max_attempts: int
    epoch: int
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: UUID | None
    lease_expires_at: datetime | None
    last_error_code: str | None
    last_error_message: str | None
    last_error_at: datetime | None
    correlation_id: UUID
    parent_id: UUID | None
    created_by: str | None
    tenant: str | None
    dedup_key: str | None
    ready_at: datetime | None
    expires_at: datetime | None
    metadata: Mapping[str, Any] | None
    attempts: tuple[Mapping[str, Any], ...]
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    origin_id: UUID | None
    requeued_as: UUID | None
