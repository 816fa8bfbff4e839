"""How large the trials are: short in the suite, full by `make proof-failures`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of jobs, and seconds."""

    limited: int
    """Behind a limit of three on each key."""
    rated: int
    """Behind a rate of a hundred a second."""
    called: int
    """That need the service which is down."""
    outage_seconds: float
    crowd: int
    """Of the tenant that is there first, in a fair queue."""
    letters: int
    pause: tuple[float, float]
    """Seconds between two kills, drawn anew each time."""


SHORT = Sizes(300, 150, 200, 2.0, 5_000, 1_500, (0.1, 0.5))
FULL = Sizes(20_000, 3_000, 1_000, 20.0, 100_000, 50_000, (1.0, 5.0))
