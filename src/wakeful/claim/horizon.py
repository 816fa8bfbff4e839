"""The horizon: where in line the last claim ended, so that the next does not walk over what it left behind.

While some old transaction keeps vacuum from removing index entries of jobs long gone, a scan from the start of
the line passes all of them. What lies before the horizon was taken, or is held by someone else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from wakeful.values.wakeup import Position

# What others held and gave back, and what is more urgent and came since, lies before the horizon. It is found when the
# horizon ends: after so many times as long as the look from the start of the line took, so that looks cost about a
# twentieth of the time, however much there is to walk over; more only where one takes more than a quarter of a second.
LOOKS_IN_A_LIFE = 20
SHORTEST_LIFE = 0.1
LONGEST_LIFE = 5.0


class Horizon:
    """One position a queue. Times are seconds on a monotonic clock."""

    def __init__(self) -> None:
        self._at: dict[str, Position] = {}
        self._ends_at = 0.0

    @property
    def bounds_anything(self) -> bool:
        """Whether a claim would not see the whole line."""
        return bool(self._at)

    def bounds(self, queues: Iterable[str], now: float) -> list[Position | None] | None:
        """Where to start in each queue; None for the start of the line everywhere."""
        if now > self._ends_at:
            self.drop()
        return [self._at.get(queue) for queue in queues] if self._at else None

    def advance(self, queues: Sequence[str], last: Position, now: float, took: float) -> None:
        """A claim on these queues took all it asked for, up to `last`, and so many seconds."""
        if not self._at:
            self._ends_at = now + max(SHORTEST_LIFE, min(LOOKS_IN_A_LIFE * took, LONGEST_LIFE))
        for queue in queues:
            self._at[queue] = last

    def lower(self, queue: str, position: Position | None) -> None:
        """Someone added a job at `position`; None: somewhere."""
        if position is None:
            self._at.pop(queue, None)
        elif queue in self._at and position <= self._at[queue]:
            self._at[queue] = position._replace(id=UUID(int=max(0, position.id.int - 1)))

    def drop(self) -> None:
        """Look from the start of the line next time."""
        self._at.clear()
