"""The alarm: the one place where the fetcher sleeps, and everything that may wake it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Remembers when to look next; rings when that moment comes, or when it is brought forward.

    Times are seconds on the event loop's clock. Waking is coalesced: however many pokes came, one look follows.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rung = asyncio.Event()
        self._due: float | None = None

    def ring(self) -> None:
        """Wake the sleeper now, or keep it from falling asleep."""
        self._rung.set()

    def due_in(self, seconds: float) -> None:
        """Wake the sleeper after `seconds`, unless something earlier is set already."""
        due = self._clock() + max(0.0, seconds)
        if self._due is None or due < self._due:
            self._due = due
            self._rung.set()

    def came_due(self) -> bool:
        """Whether the timer has run out; answering takes it down."""
        if self._due is not None and self._due <= self._clock():
            self._due = None
            return True
        return False

    def forget(self) -> None:
        """Take the timer down: a look at the table tells anew what is due."""
        self._due = None

    async def sleep(self, until: float) -> None:
        """Return when rung, when the timer runs out, or at `until`, whichever is first."""
        if not self._rung.is_set():
            wake_at = until if self._due is None else min(until, self._due)
            seconds = wake_at - self._clock()
            if seconds > 0:
                handle = asyncio.get_running_loop().call_later(seconds, self._rung.set)
                try:
                    await self._rung.wait()
                finally:
                    handle.cancel()
        self._rung.clear()
