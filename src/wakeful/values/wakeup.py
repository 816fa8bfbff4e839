"""What makes a worker look: pokes as they travel, positions in line, and what a claim reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from wakeful.values.schedule import DueSchedule


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Position(NamedTuple):
    """A place in line; smaller comes first."""

    rank: int
    ready_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class Poke:
    """Something became runnable in `queue`, or will in `seconds`. No position: look from the start of the line."""

    queue: str
    seconds: float
    position: Position | None


@dataclass(frozen=True, slots=True)
class Handed:
    """A job that began as this worker's, in the commit that enqueued it: `told` is what `handed_job` reads."""

    told: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """Something was resumed: look again, everywhere."""


@dataclass(frozen=True, slots=True)
class LookForCancelled:
    """A job of this worker was cancelled."""


@dataclass(frozen=True, slots=True)
class Canary:
    """The worker's own call, heard."""

    number: int


@dataclass(frozen=True, slots=True)
class BreakerSteered:
    """Somebody has opened or closed a breaker by hand, and this worker is the one that is told."""

    opened: bool
    facts: Mapping[str, object]


Notice = Poke | Handed | Look | LookForCancelled | Canary | BreakerSteered


def read_notice(payload: str, private: bool = False) -> Notice:
    """What a notification says. One that cannot be read is taken as a call to look: a hint costs one query.

    Anyone who may connect may notify: only by the worker's `private` channel does a job come.
    """
    try:
        told = json.loads(payload)
        if private:
            return Handed(tuple(told))
        if "q" in told:
            return Poke(str(told["q"]), told["in"] / 1000, _position(told.get("at")))
        if "canary" in told:
            return Canary(int(told["canary"]))
        if "cancel" in told:
            return LookForCancelled()
        if "breaker" in told:
            facts = dict(told["breaker"])
            return BreakerSteered(facts.pop("to") == "open", facts)
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    return Look()


def _position(at: list[object] | None) -> Position | None:
    if at is None:
        return None
    rank, micros, id_text = at
    return Position(int(str(rank)), _EPOCH + timedelta(microseconds=int(str(micros))), UUID(str(id_text)))


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """What a claim tells besides its jobs. `due_in`: seconds until there is something to look for again.

    `held_back`: more is there for the next slot that comes free.
    """

    due_in: float | None = None
    suspects: bool = False
    cancelled: tuple[UUID, ...] = ()
    refused: tuple[UUID, ...] = ()
    schedules: tuple[DueSchedule, ...] = ()
    held_back: bool = False
    # When the call began, by the database's clock, as PostgreSQL sends it.
    began_wire: bytes | None = None
