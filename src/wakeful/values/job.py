"""A job in its three shapes: as it is asked for, as it was claimed, and as it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from wakeful.values.wakeup import Position

_set = object.__setattr__
_WIRE_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class JobId(UUID):
    """The id of an enqueued job, which also says what enqueuing did: `inserted`, `resent`, `skipped`, ….

    Equal to, and hashed like, the plain UUID.
    """

    __slots__ = ("action",)

    action: str

    def __init__(self, value: UUID, action: str) -> None:
        # UUID.__init__ spends most of its time telling its seven arguments apart.
        _set(self, "int", value.int)
        _set(self, "is_safe", value.is_safe)
        _set(self, "action", action)

    def __reduce__(self) -> tuple[type[JobId], tuple[UUID, str]]:
        """Pickled as its two parts: UUID's own state knows nothing of the action."""
        return JobId, (UUID(int=self.int), self.action)


class NewJob(NamedTuple):
    """A job as it is asked for. `payload` and `metadata` are JSON texts; None stands for the default.

    A tuple: a frozen dataclass of so many fields takes five times as long to make. They are named as enqueue_batch_1's
    parameters are.
    """

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

    A tuple of what came over the wire, because thousands are made in a second: ids are their sixteen bytes, times
    the eight that PostgreSQL sends, and JSON is text. Each is read when it is asked for, which for most jobs is never.
    """

    key: bytes
    task: str
    queue: str
    payload: str
    attempt: int
    max_attempts: int
    epoch: int
    rank: int
    ready_wire: bytes
    created_wire: bytes
    started_wire: bytes
    correlation_key: bytes
    parent_key: bytes | None
    origin_key: bytes | None
    tenant: str | None
    created_by: str | None
    metadata: str | None
    attempts: str | None
    saved: str | None
    worker_id: UUID

    @property
    def id(self) -> UUID:
        """The job's id."""
        return UUID(bytes=self.key)

    @property
    def correlation_id(self) -> UUID:
        """Shared by a job and all that came of it."""
        return UUID(bytes=self.correlation_key)

    @property
    def parent_id(self) -> UUID | None:
        """The job that enqueued it."""
        return None if self.parent_key is None else UUID(bytes=self.parent_key)

    @property
    def origin_id(self) -> UUID | None:
        """The dead letter that it was requeued from."""
        return None if self.origin_key is None else UUID(bytes=self.origin_key)

    @property
    def ready_at(self) -> datetime:
        """When it came into line."""
        return _moment(self.ready_wire)

    @property
    def created_at(self) -> datetime:
        """When it was enqueued."""
        return _moment(self.created_wire)

    @property
    def started_at(self) -> datetime:
        """When this attempt was claimed."""
        return _moment(self.started_wire)

    @property
    def priority(self) -> int:
        """From −100 to 100, the higher first."""
        return -self.rank

    @property
    def position(self) -> Position:
        """Its place in line."""
        return Position(self.rank, self.ready_at, self.id)

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.task!r} attempt {self.attempt} of {self.max_attempts}>"


def handed_job(told: Sequence[Any], worker_id: UUID) -> Job:
    """The job that a worker was handed, as sql/schema/36_hand_over.sql tells of it. ValueError if it is not."""
    id, task, queue, payload, most, rank, at, correlation, parent, tenant, created_by, metadata = told
    key, moment = bytes.fromhex(id.replace("-", "")), bytes.fromhex(at)
    correlation_key = key if correlation == id else UUID(correlation).bytes
    parent_key = None if parent is None else UUID(parent).bytes
    return Job(
        *(key, task, queue, payload, 1, int(most), 1, int(rank), moment, moment, moment),
        *(correlation_key, parent_key, None, tenant, created_by, metadata, None, None, worker_id),
    )


in_line: Final[Callable[[Job], Any]] = itemgetter(*(Job._fields.index(name) for name in ("rank", "ready_wire", "key")))
"""What orders claimed jobs as they stood in line: the parts of `position` as they came, which compare alike."""


def _moment(wire: bytes) -> datetime:
    """PostgreSQL sends microseconds since the year 2000."""
    return _WIRE_EPOCH + timedelta(microseconds=int.from_bytes(wire, "big", signed=True))


def wire(at: datetime) -> bytes:
    """A moment as PostgreSQL sends it."""
    return ((at - _WIRE_EPOCH) // timedelta(microseconds=1)).to_bytes(8, "big", signed=True)


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
