"""How a worker process stands, at the moment it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

# A worker that is well asks at every pulse. This many may go wrong before it counts as dead.
PULSES_MISSED = 3
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Standing:
    """`answered_seconds`: since the database last answered a claim or a pulse. `counts`: what it was asked, by kind."""

    worker_id: UUID
    answered_seconds: float
    pulse_seconds: float
    stopping: bool
    listens: bool
    hears: bool
    slots: int
    running: int
    counts: Mapping[str, int]

    @property
    def alive(self) -> bool:
        """Whether it does its work: the last successful claim query decides, not that there is a process."""
        return self.answered_seconds <= PULSES_MISSED * self.pulse_seconds + PATIENCE_SECONDS

    @property
    def ready(self) -> bool:
        """Whether it takes jobs."""
        return self.alive and not self.stopping

    @property
    def degraded(self) -> bool:
        """Whether it polls because its listener hears nothing."""
        return self.listens and not self.hears
