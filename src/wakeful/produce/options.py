"""The options of one enqueue: read and checked when they are given, in the caller's stack frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict, get_args
from uuid import UUID

from wakeful.values.duration import DurationLike, nonnegative_duration
from wakeful.values.errors import InvalidOption
from wakeful.values.moment import moment
from wakeful.values.names import label, queue_name
from wakeful.values.number import whole_number
from wakeful.values.retry import MOST_ATTEMPTS, RetryLike, RetryPolicy, retry_policy
from wakeful.values.wording import shown

Dedup = Literal["skip", "raise", "replace", "debounce", "rerun"]

_LONGEST_DEDUP_KEY_BYTES: Final = 2000


class EnqueueOptions(TypedDict, total=False):
    """What `using` and `app.enqueue` take beside `conn`. What is left out, or None, is the task's own."""

    queue: str | None
    priority: int | None
    """From −100 to 100, the higher first."""
    delay: DurationLike | None
    run_at: datetime | None
    max_attempts: int | None
    max_retries: int | None
    """One less than max_attempts, for who prefers to count so."""
    dedup_key: str | None
    """Of the live jobs of a task only one has this key; `dedup` says what becomes of a second."""
    dedup: Dedup | None
    tenant: str | None
    correlation_id: UUID | str | None
    parent_id: UUID | str | None
    created_by: str | None
    expires_at: datetime | None
    """A job that has not started by then is cancelled."""
    id: UUID | str | None
    """Sent again with the same id, a job is made once."""
    idempotency_key: str | None
    """What `ctx.idempotency_key` says, instead of the job's id."""
    metadata: Mapping[str, object] | None
    tags: Iterable[str] | None
    retry: RetryLike | None
    """This job's own retry policy, instead of its task's; not a function, which cannot be stored."""
    patience: DurationLike | None
    """How long to wait for room in a queue that is full, before QueueFull is raised; not at all if left out."""
    poke: bool | None
    """False leaves sleeping workers asleep, until something else wakes them."""


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options; None stands for the task's own."""

    conn: Any = None
    queue: str | None = None
    priority: int | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    dedup_key: str | None = None
    dedup: str | None = None
    tenant: str | None = None
    correlation_id: UUID | None = None
    parent_id: UUID | None = None
    created_by: str | None = None
    expires_at: datetime | None = None
    id: UUID | None = None
    idempotency_key: str | None = None
    metadata: Mapping[str, object] | None = None
    tags: tuple[str, ...] | None = None
    retry: RetryPolicy | None = None
    patience: timedelta | None = None
    poke: bool | None = None

    def updated(self, conn: object, given: EnqueueOptions) -> Options:
        """These options with the given ones over them; an InvalidOption names the one that is wrong."""
        read = {name: _read(name, value) for name, value in given.items() if value is not None}
        if conn is not None:
            read["conn"] = conn
        if "max_retries" in read:
            if "max_attempts" in read:
                raise InvalidOption("max_retries", "is given beside max_attempts: give one of them.")
            read["max_attempts"] = read.pop("max_retries")
        if "delay" in read and "run_at" in read:
            raise InvalidOption("run_at", "is given beside delay, and both say when: give one of them.")
        if read.get("patience", self.patience) and read.get("conn", self.conn) is not None:
            raise InvalidOption("patience", "is given beside conn, whose transaction a full queue ends: leave it out.")
        # Sent again with its id, a job may have been made in time.
        if "expires_at" in read and read.get("id", self.id) is None:
            _refuse_past(read["expires_at"])
        # Of two copies made one of the other, the later says when.
        if "delay" in read:
            read["run_at"] = None
        elif "run_at" in read:
            read["delay"] = None
        return replace(self, **read)


NO_OPTIONS: Final = Options()


def _read(name: str, value: object) -> Any:
    reader = _READERS.get(name)
    if reader is None:
        near = get_close_matches(name, _READERS, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(_READERS))}."
        raise InvalidOption(name, f"is no option of enqueuing: {advice}")
    return reader(value, name)


def priority(value: object, field: str) -> int:
    """From −100 to 100, the higher first."""
    return whole_number(value, field, -100, 100)


def _refuse_past(expires_at: datetime) -> None:
    if expires_at <= datetime.now(UTC):
        told = expires_at.isoformat(" ", "seconds")
        raise InvalidOption("expires_at", f"lies in the past ({told}): give a later moment, or leave it out.")


def _starts(value: object, field: str) -> int:
    return whole_number(value, field, 1, MOST_ATTEMPTS)


def _starts_after_first(value: object, field: str) -> int:
    return whole_number(value, field, 0, MOST_ATTEMPTS - 1) + 1


def _dedup_key(value: Any, field: str) -> str:
    try:
        size = len(value.encode()) if "\x00" not in value else 0
    except (AttributeError, TypeError, UnicodeEncodeError):
        size = 0
    if not size:
        raise InvalidOption(field, f"is {shown(value)}: give a text that is not empty and has no NUL.")
    if size > _LONGEST_DEDUP_KEY_BYTES:
        raise InvalidOption(field, f"has {size} bytes: give {_LONGEST_DEDUP_KEY_BYTES} at most, such as a hash of it.")
    return str(value)


def _dedup(value: object, field: str) -> object:
    if value not in get_args(Dedup):
        raise InvalidOption(field, f"is {shown(value)}: use one of {', '.join(get_args(Dedup))}.")
    return value


def _uuid(value: object, field: str) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(str(value))
    except ValueError:
        raise InvalidOption(field, f"is {shown(value)}: give a UUID.") from None


def _mapping(value: object, field: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidOption(field, f"is {shown(value)}: give a mapping of names to JSON values.")
    return MappingProxyType(dict(value))


def _labels(value: object, field: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption(field, f"is {shown(value)}: give a list of texts.")
    return tuple(label(item, field) for item in value)


def _flag(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(field, f"is {shown(value)}: give True or False.")
    return value


_READERS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "queue": queue_name,
    "priority": priority,
    "delay": nonnegative_duration,
    "run_at": moment,
    "max_attempts": _starts,
    "max_retries": _starts_after_first,
    "dedup_key": _dedup_key,
    "dedup": _dedup,
    "tenant": label,
    "correlation_id": _uuid,
    "parent_id": _uuid,
    "created_by": label,
    "expires_at": moment,
    "id": _uuid,
    "idempotency_key": label,
    "metadata": _mapping,
    "tags": _labels,
    "retry": retry_policy,
    "patience": nonnegative_duration,
    "poke": _flag,
}
