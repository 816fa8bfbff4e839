"""A run: one attempt that is over, as it is told to whoever observes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wakeful.values.job import Job

RunOutcome = Literal["completed", "failed", "dead", "snoozed", "cancelled", "released", "lost"]


@dataclass(frozen=True, slots=True)
class CompletedRuns:
    """Jobs that were simply done, hundreds at a time, in columns: how long each ran, and had waited, in seconds."""

    jobs: Sequence[Job]
    seconds: Sequence[float]
    queue_seconds: Sequence[float]

    @classmethod
    def of(cls, done: Sequence[tuple[Job, float]]) -> CompletedRuns:
        """From jobs and the seconds that their handlers took."""
        jobs, seconds = zip(*done, strict=True)
        # Microseconds since 2000, as they came over the wire, and all of them in one go.
        numbers = struct.Struct(f">{len(jobs)}q")
        ready = numbers.unpack(b"".join([job.ready_wire for job in jobs]))
        started = numbers.unpack(b"".join([job.started_wire for job in jobs]))
        return cls(jobs, seconds, [(begun - there) / 1e6 for begun, there in zip(started, ready, strict=True)])


class Run(NamedTuple):
    """How it went. `retry_in` is seconds, None for no further start. A tuple, because thousands are made in a second.

    `fields` are the payload's fields that the task wants to see in its log lines.
    """

    job: Job
    outcome: RunOutcome
    seconds: float
    error_code: str | None = None
    message: str | None = None
    retry_in: float | None = None
    counters: Mapping[str, float] | None = None
    fields: Mapping[str, object] | None = None

    @property
    def queue_seconds(self) -> float:
        """How long the job was ready before it was claimed."""
        waited = int.from_bytes(self.job.started_wire, "big") - int.from_bytes(self.job.ready_wire, "big")
        return max(0.0, waited / 1e6)
