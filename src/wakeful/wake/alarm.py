"""The alarm: the one place where the fetcher sleeps, and everything that may wake it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class Alarm:
    """Remembers when to look next; rings when that moment comes, or when it is brought forward.

    Times are seconds on the event loop's clock. Waking is coalesced: however many pokes came, one look follows.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rung = asyncio.Event()
        # What pokes told of, and what the last look at the table did.
        self._told = inf
        self._seen = inf
        # When the sleeper wakes if nothing rings; None while it is awake.
        self.wakes_at: float | None = None

    def ring(self) -> None:
        """Wake the sleeper now, or keep it from falling asleep."""
        self._rung.set()

    def due_in(self, seconds: float) -> None:
        """Wake the sleeper after `seconds`, unless something earlier is told of already."""
        due = self._clock() + max(0.0, seconds)
        if due < self._told:
            self._told = due
            self._rung.set()

    def table_says(self, seconds: float | None) -> None:
        """What the table knows of is next due in so many seconds, None for never: this takes the place of the last."""
        self._seen = inf if seconds is None else self._clock() + max(0.0, seconds)

    def came_due(self) -> bool:
        """Whether the timer has run out; answering takes it down."""
        now = self._clock()
        told, seen = self._told <= now, self._seen <= now
        if told:
            self._told = inf
        if seen:
            self._seen = inf
        return told or seen

    async def sleep(self, until: float) -> None:
        """Return when rung, when the timer runs out, or at `until`, whichever is first."""
        if not self._rung.is_set():
            now = self._clock()
            moment = min(until, self._told, self._seen)
            if moment > now:
                handle = asyncio.get_running_loop().call_later(moment - now, self._rung.set)
                self.wakes_at = moment
                try:
                    await self._rung.wait()
                finally:
                    handle.cancel()
                    self.wakes_at = None
        self._rung.clear()
