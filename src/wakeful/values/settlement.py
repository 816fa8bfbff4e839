"""What is written when an attempt is over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple
from uuid import UUID


class Completion(NamedTuple):
    """A job is done; `key` is its id in bytes, `result` JSON text. A tuple, because thousands are made in a second."""

    key: bytes
    epoch: int
    result: str | None

    @property
    def id(self) -> UUID:
        """The job's id."""
        return UUID(bytes=self.key)


@dataclass(frozen=True, slots=True)
class Ending:
    """An attempt ended otherwise. `retry_in` None for a failed one means that there is no further start.

    `fault`: a failure counts against the task's breaker.
    """

    id: UUID
    epoch: int
    outcome: Literal["failed", "snoozed", "released", "cancelled"]
    code: str | None = None
    message: str | None = None
    details: str | None = None
    retry_in: timedelta | None = None
    fault: bool = True


Settlement = Completion | Ending


Reason = Literal["stale", "settled", "locked"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A settlement that did not pass the fence: `settled` if this very claim had settled it already."""

    id: UUID
    reason: Reason
