"""How long to wait before a process that crashed is started again, and when to give up."""

from __future__ import annotations

import random
from collections.abc import Callable

SHORTEST_WAIT = 0.25
LONGEST_WAIT = 30.0
# Who has lived this long was not broken from the start.
STEADY_AFTER = 10.0
GIVE_UP_AFTER = 5


class Backoff:
    """Counts crashes in a row, each within STEADY_AFTER of its start. Waits are in seconds."""

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        self._draw = draw
        self.crashes = 0

    def crashed(self, lived: float) -> float:
        """The wait before the next start: doubled with each crash in a row, ± a half by chance."""
        self.crashes = 1 if lived >= STEADY_AFTER else self.crashes + 1
        wait = min(LONGEST_WAIT, SHORTEST_WAIT * 2.0 ** (min(self.crashes, 20) - 1))
        return wait * (0.5 + self._draw())

    def calm(self) -> None:
        """It ended as it should."""
        self.crashes = 0

    @property
    def hopeless(self) -> bool:
        """Whether it has crashed too often in a row."""
        return self.crashes >= GIVE_UP_AFTER
