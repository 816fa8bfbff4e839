"""Workers that die at random moments, and others in their place."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.failures.trial import Site
from tests.worker.processes import Fleet, WorkerProcess

PROCESSES = 4
# Long enough that a process which is merely slow is not taken for a dead one.
LEASE_SECONDS = 5


class Doomed:
    """Four processes of which one is killed every now and then; `died` tells when each did."""

    def __init__(self, site: Site, fleet: Fleet, concurrency: int) -> None:
        self._site, self._fleet, self._concurrency = site, fleet, concurrency
        self.died: dict[int, float] = {}
        self._living = [self._start() for _ in range(PROCESSES)]
        for worker in self._living:
            worker.started()

    def kill_until(self, enough: Callable[[], bool]) -> None:
        """Kill them one by one, with pauses as the dice have it, until it is enough."""
        while not enough():
            time.sleep(self._site.dice.uniform(*self._site.sizes.pause))
            victim = self._living.pop(self._site.dice.randrange(len(self._living)))
            # One that has not come so far holds nothing, and on a slow machine none ever would.
            victim.started().kill()
            self.died[victim.process.pid] = time.time()
            self._living.append(self._start())

    def _start(self) -> WorkerProcess:
        return self._fleet.start(app="tests.failures.apps", lease=LEASE_SECONDS, concurrency=self._concurrency)
