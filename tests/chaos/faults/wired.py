"""Faults of the network between workers and the database: the wire is cut at a message, or says nothing more."""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import cycle
from typing import ClassVar

from tests.chaos.faults.fault import Fault
from tests.chaos.network import network, no_network
from tests.chaos.stage import Stage
from tests.chaos.wire import VERBS, Cut, Side, wire_to
from tests.sessions import query


class Wired(Fault):
    """Workers talk over a wire, and only they."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._open = ExitStack()
        self.wire = self._open.enter_context(wire_to(stage.worker_dsn))

    def prepare(self) -> None:
        """Put the wire between them."""
        self.stage.worker_dsn = self.wire.dsn

    def heal(self) -> None:
        """All goes through again."""
        self.wire.resume()
        super().heal()

    def end(self) -> None:
        """The wire goes with the stage."""
        self._open.close()


class Cuts(Wired):
    """Every message of enqueue, claim, heartbeat, settlement and COMMIT, one after the other, on either side."""

    name = "cut"
    says = "the connection is cut at each protocol message of enqueue, claim, heartbeat, settle and COMMIT in turn"
    lease = 3.0
    pause = (0.0, 0.05)
    # Longer than any of the calls takes to come round again.
    patience: ClassVar[float] = 10.0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._sides: list[tuple[str, Side]] = [(verb, side) for verb in VERBS for side in ("client", "server")]
        self._turns = cycle(range(len(self._sides)))
        self._next = [0] * len(self._sides)
        self._whole: set[int] = set()

    def prepare(self) -> None:
        """The producer is cut off too."""
        super().prepare()
        self.stage.load_dsn = self.wire.dsn

    def inject(self) -> int:
        """The next message of the next verb; when its last one was had, from the first again."""
        turn = next(self._turns)
        verb, side = self._sides[turn]
        before = len(self.wire.cuts)
        self.wire.cut_at(Cut(verb, side, self._next[turn]))
        if verb in ("settle", "commit"):
            self.stage.probe("effect")
        deadline = time.monotonic() + self.patience
        while len(self.wire.cuts) == before and not self.wire.missed.is_set() and time.monotonic() < deadline:
            time.sleep(0.01)
        if len(self.wire.cuts) > before:
            self._next[turn] += 1
            return 1
        self._whole.add(turn)
        self._next[turn] = 0
        return 0


class ListenerKilled(Wired):
    """The listening session is ended, and jobs come while nobody listens."""

    name = "listener-killed"
    says = "the listener's session is ended"
    takes_jobs = False
    lease = 30.0

    def inject(self) -> int:
        """End them all at once: by the server, or on the way to a pooler, behind which no session is a listener's."""
        with self.stage.session() as db:
            ended = query(
                db,
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'wakeful listener'",
            )
        return len(ended) or self.wire.hang_up("wakeful listener")


class ListenerHalfOpen(Wired):
    """Nothing comes through to the listeners any more, and no end is told of it."""

    name = "listener-half-open"
    says = "the listener's connection goes silent, with no RST"
    takes_jobs = False
    lease = 30.0
    pause = (2.0, 6.0)

    def inject(self) -> int:
        """Silence them all."""
        return self.wire.silence("wakeful listener")


LENGTHS = (0.5, 2.0, 10.0)


class HeldUp(Wired):
    """The link holds, and nothing comes over it for half a lease, two, and ten; then all of it comes, late."""

    name = "held-up"
    says = "what workers and database say to each other arrives 0.5, 2 and 10 leases late"
    lease = 2.0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._lengths = cycle(LENGTHS)

    def inject(self) -> int:
        """One of the three lengths, in turn."""
        self.wire.pause()
        time.sleep(next(self._lengths) * self.lease)
        self.wire.resume()
        return 1


class Partition(Fault):
    """The workers are in a network of their own, and the cable between carries nothing for a while."""

    name = "partition"
    says = "no packet passes between the workers' network namespace and the database for 0.5, 2 and 10 leases"
    lease = 2.0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._open = ExitStack()
        self._lengths = cycle(LENGTHS)

    @classmethod
    def missing(cls) -> str | None:
        """It takes root, and a program."""
        return no_network()

    def prepare(self) -> None:
        """Put the workers there; the database is to be had at this end of the cable."""
        self._network = self._open.enter_context(network())
        wire = self._open.enter_context(wire_to(self.stage.worker_dsn, self._network.ours))
        self.stage.worker_dsn = wire.dsn
        self.stage.before = lambda: self._network.inside

    def inject(self) -> int:
        """One of the three lengths, in turn."""
        self._network.part()
        time.sleep(next(self._lengths) * self.lease)
        self._network.mend()
        return 1

    def heal(self) -> None:
        """The cable is whole."""
        self._network.mend()
        super().heal()

    def end(self) -> None:
        """The network goes with the stage."""
        self._open.close()
