"""Jobs that bring their worker down, among good ones."""

from __future__ import annotations

from itertools import cycle

from tests.chaos.faults.fault import Fault
from tests.chaos.stage import Stage
from tests.sessions import scalar

WAYS = ("abort", "segfault", "memory")


class Crashing(Fault):
    """A job that aborts, faults or takes all memory ends as a dead letter, and the others complete."""

    name = "crashing-job"
    says = "a job that ends its process by abort, SIGSEGV or want of memory"
    lease = 1.5
    pause = (0.5, 1.0)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._ways = cycle(WAYS)

    def inject(self) -> int:
        """Enqueue one, unless some are still at it; put a new worker where one died."""
        self.stage.fill()
        with self.stage.session() as db:
            if scalar(db, "select count(*) from wakeful.job where task = 'crashing'") >= 2:
                return 0
        self.stage.probe("crashing", how=next(self._ways))
        return 1
