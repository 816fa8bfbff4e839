"""Workers are killed."""

from __future__ import annotations

import time

from tests.chaos.faults.fault import Fault


class Kill(Fault):
    """One of the three, wherever it is; another takes its place."""

    name = "kill"
    says = "SIGKILL of a worker"
    lease = 2.0
    share = 3.0

    def inject(self) -> int:
        """Kill one."""
        # One that has come to work: nothing is proved by the death of a process that still imports its modules.
        working = [worker for worker in self.stage.workers if "worker_started" in worker.log]
        if not working:
            return 0
        self.stage.dice.choice(working).kill()
        self.stage.fill()
        return 1


class KillBetween(Fault):
    """Handlers kill their own process between the effect and its settlement."""

    name = "kill-between"
    says = "SIGKILL between a handler's effect and its settlement"
    lease = 2.0

    def begin(self) -> None:
        """From here on one handler in fifty dies."""
        self.stage.variables["CHAOS_DEATHS"] = "2"
        self._change_workers()

    def inject(self) -> int:
        """Wait for the next death."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if dead := sum(worker.process.poll() is not None for worker in self.stage.workers):
                self.stage.fill()
                return dead
            time.sleep(0.02)
        return 0

    def heal(self) -> None:
        """Those who may die make place for those who do not."""
        self.stage.variables.clear()
        self._change_workers()

    def _change_workers(self) -> None:
        for worker in self.stage.workers:
            worker.kill()
        self.stage.fill()
