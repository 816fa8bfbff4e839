"""How many jobs to hold ready behind the busy slots, so that they do not run dry while the next turn is under way.

That is the number of jobs that finish during one turn: none to speak of for slow handlers, hundreds for fast ones.
"""

from __future__ import annotations

MOST = 1000
_WEIGHT = 0.3


class Appetite:
    """Learns the rate of finished jobs and the length of a turn."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._per_turn = 0.0

    def learn(self, finished: int) -> None:
        """A turn has ended in whose time `finished` jobs did."""
        if finished > self._per_turn:
            self._per_turn = float(finished)
        else:
            self._per_turn += _WEIGHT * (finished - self._per_turn)

    def extra(self) -> int:
        """How many to ask for beyond the free slots."""
        if self._per_turn < 2:
            return 0
        return min(self._most, int(self._per_turn * 2))
