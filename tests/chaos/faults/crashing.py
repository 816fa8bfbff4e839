"""Jobs that bring their worker down, among good ones."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import cycle

from tests.chaos.cage import Cage, cage
from tests.chaos.faults.fault import Fault
from tests.chaos.stage import Stage
from tests.sessions import scalar

# A worker takes about sixty.
CAGE_MEGABYTES = 300
WAYS = ("memory", "abort", "segfault")


class Crashing(Fault):
    """A job that aborts, faults or takes all memory ends as a dead letter, and the others complete."""

    name = "crashing-job"
    says = "a job that ends its process by abort, by SIGSEGV or by taking all memory of its control group"
    lease = 1.5
    pause = (0.5, 1.0)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._ways = cycle(WAYS)
        self._open = ExitStack()
        self._cage: Cage | None = None

    def prepare(self) -> None:
        """Workers live where memory is scarce, each by itself."""
        self._cage = self._open.enter_context(cage(CAGE_MEGABYTES))
        if self._cage is not None:
            made = self._cage
            self.stage.before = lambda: made.inside
            self.stage.variables["CHAOS_CAGED"] = "yes"

    def inject(self) -> int:
        """Enqueue one, unless some are still at it; put a new worker where one died."""
        self.stage.fill()
        with self.stage.session() as db:
            if scalar(db, "select count(*) from wakeful.job where task = 'crashing'") >= 2:
                return 0
        self.stage.probe("crashing", how=next(self._ways))
        return 1

    def notes(self) -> list[str]:
        """How the want of memory was made."""
        if self._cage is None:
            return ["no control group could be made here: the job that wants memory killed itself"]
        return [f"{self._cage.killed} workers were killed by the kernel, in a control group of {CAGE_MEGABYTES} MB"]

    def end(self) -> None:
        """The cage is taken down once nobody is in it."""
        for worker in self.stage.workers:
            worker.kill()
        self._open.close()
