"""A duty: a small loop that must not end. When it does, that is logged, counted, and it is started again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

log = logging.getLogger("wakeful.tend")

LONGEST_WAIT = 30.0


class Duty:
    """Runs `work` for ever, with a growing, jittered wait after each failure. `failures` counts them in a row."""

    def __init__(self, name: str, work: Callable[[], Awaitable[None]], give_up_after: int | None = None) -> None:
        self.name = name
        self._work = work
        self._give_up_after = give_up_after
        self.failures = 0

    async def run(self) -> None:
        """Raises only when it has been given up."""
        while True:
            try:
                await self._work()
                self.failures = 0
            except Exception as error:
                # A duty's own bug must not end the worker: it is logged, counted and tried again.
                self.failures += 1
                log.exception("duty_failed: %s", self.name, extra={"event": "duty_failed", "duty": self.name})
                if self._give_up_after is not None and self.failures >= self._give_up_after:
                    raise
                del error
            wait = min(0.1 * 2.0 ** min(self.failures, 20), LONGEST_WAIT) if self.failures else 0.0
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
