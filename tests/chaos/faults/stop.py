"""Workers stand still, and go on as if nothing had happened."""

from __future__ import annotations

import signal
import time

from tests.chaos.faults.fault import Fault


class Stop(Fault):
    """One is stopped for three leases; what it held is others' when it goes on."""

    name = "stop"
    says = "SIGSTOP of a worker for three leases"
    lease = 1.5

    def inject(self) -> int:
        """Stop one, wait, let it go on."""
        victim = self.stage.dice.choice(self.stage.workers)
        self.stage.probe("lasting", seconds=0.3)
        victim.signal(signal.SIGSTOP)
        try:
            time.sleep(3 * self.lease)
        finally:
            victim.signal(signal.SIGCONT)
        return 1


class Gil(Fault):
    """A handler lets no other thread of its process run for three leases."""

    name = "gil"
    says = "a handler that holds the GIL for three leases"
    lease = 1.5

    def inject(self) -> int:
        """Enqueue one such handler, and wait until it must be over."""
        self.stage.probe("holding_the_gil", seconds=3 * self.lease)
        time.sleep(3 * self.lease)
        return 1
