"""When a suspect gets its chance: a job that may bring its worker down runs alone, once nothing else does.

For that, claiming rests a while. Not for as long as it takes: a worker with a handler that runs for hours must go on
with its other work, and the suspect is left to one that is less busy, or to the next rest.
"""

from __future__ import annotations

from math import inf
from typing import Literal

Turn = Literal["work", "rest", "alone"]

REST_SECONDS = 15.0
SECONDS_BETWEEN_RESTS = 120.0
# Someone else has it, or holds its row.
SECONDS_AFTER_NONE = 1.0


class Solitude:
    """`wanted`: suspects wait. Times are seconds on a monotonic clock."""

    def __init__(self) -> None:
        self.wanted = False
        self._not_before = 0.0
        self._rests_until = 0.0
        self._next_rest_at = 0.0

    def turn(self, idle: bool, now: float) -> Turn:
        """Whether to take jobs as always, to take none, or to take a suspect."""
        if not self.wanted or now < self._not_before:
            return "work"
        if idle:
            return "alone"
        if now >= self._next_rest_at:
            self._rests_until = now + REST_SECONDS
            self._next_rest_at = self._rests_until + SECONDS_BETWEEN_RESTS
        return "rest" if now < self._rests_until else "work"

    def changes_at(self, now: float) -> float:
        """When the turn may be another one by itself; infinity for never."""
        coming = (self._not_before, self._rests_until, self._next_rest_at)
        return min((at for at in coming if at > now), default=inf) if self.wanted else inf

    def found(self, any_suspect: bool, now: float) -> None:
        """A suspect was asked for. After one that has run, the next need not wait for its rest."""
        if any_suspect:
            self._next_rest_at = self._rests_until = 0.0
        else:
            self._not_before = now + SECONDS_AFTER_NONE
