"""The primary of a Patroni cluster dies; the other node takes over by itself, and an empty node comes to follow it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from psycopg.conninfo import make_conninfo

from tests.chaos.cluster import FOLLOWER, TTL_SECONDS, Cluster, Node, no_cluster
from tests.chaos.evidence import WITNESS
from tests.chaos.faults.fault import Fault
from tests.chaos.forgetting import since_promotion
from tests.chaos.server import Server
from tests.chaos.stage import Stage
from tests.sessions import query
from tests.worker.processes import until
from wakeful.database.connect import connect
from wakeful.database.migrations import up

# After the leader's key lapses: an election, a promotion, and a worker that tries again.
MOST_SECONDS = TTL_SECONDS + 10
# What is committed after the last that the old primary sent is of the one that took its place.
FIRST_CLAIM = """
    select extract(epoch from min(at) - to_timestamp(%s)) as after from witness.move
    where after = 2 and at > pg_last_xact_replay_timestamp()
"""


class Patroni(Fault):
    """Synchronous: what was acknowledged is on both nodes."""

    name = "patroni"
    says = "kill -9 of Patroni and PostgreSQL on the primary of a synchronous Patroni cluster, again and again"
    pause = (3.0, 6.0)
    synchronous: ClassVar[bool] = True
    # Of the run that is on: a fault is made on a stage, and the cluster is there before it.
    cluster: ClassVar[Cluster]

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._outages: list[float] = []

    @classmethod
    def missing(cls) -> str | None:
        """It takes etcd and Patroni."""
        return no_cluster()

    @classmethod
    @contextmanager
    def served(cls, place: Path) -> Iterator[tuple[str, Server | None]]:
        """Of the cluster's making."""
        cls.cluster = Cluster(place, cls.synchronous)
        try:
            cls.cluster.start()
            with connect(cls.cluster.dsn) as conn:
                up(conn)
                conn.execute(WITNESS.encode())
            yield cls.cluster.dsn, None
        finally:
            cls.cluster.end()

    def prepare(self) -> None:
        """A pooler knows one server at a time."""
        if self.stage.pooler is not None:
            self._point_the_pooler()

    def inject(self) -> int:
        """Kill the leader; wait for the other, for workers that claim, and for a new node that follows."""
        leader = self._leader()
        killed = time.time()
        leader.kill()
        until(lambda: (found := self.cluster.leader()) is not None and found is not leader, 120)
        if self.stage.pooler is not None:
            self._point_the_pooler()
        until(lambda: self._first_claim(killed) is not None, 120)
        self._outages.append(self._first_claim(killed) or 0.0)
        self.cluster.replace(leader)
        self.cluster.whole()
        return 1

    def heal(self) -> None:
        """Both are there."""
        self.cluster.whole()
        super().heal()

    def notes(self) -> list[str]:
        """How long nobody claimed."""
        told = ", ".join(f"{seconds:.1f}" for seconds in self._outages)
        return [f"workers claimed again {told} s after the kill, with a ttl of {TTL_SECONDS} s"]

    def complaints(self) -> list[str]:
        """Whether that took too long."""
        slow = [seconds for seconds in self._outages if seconds > MOST_SECONDS]
        return [f"workers claimed again only after {seconds:.1f} s, {MOST_SECONDS} at most" for seconds in slow]

    def _leader(self) -> Node:
        leader = self.cluster.leader()
        assert leader is not None, "nobody leads"
        return leader

    def _first_claim(self, killed: float) -> float | None:
        with self.stage.session() as db:
            [row] = query(db, FIRST_CLAIM, killed)
        return None if row["after"] is None else float(row["after"])

    def _point_the_pooler(self) -> None:
        assert self.stage.pooler is not None
        leader = self._leader()
        self.stage.pooler.point_at(make_conninfo(self.stage.dsn, host="127.0.0.1", port=leader.port))


class PatroniAsync(Patroni):
    """Asynchronous: what the other node had not heard of yet is gone, and counted."""

    name = "patroni-async"
    says = "the same, once, with asynchronous replication that lags by up to 1.5 s: what is lost is counted"
    synchronous = False

    def inject(self) -> int:
        """Once. The replica hears nothing of the last second before the kill."""
        self.cluster.whole()
        assert self._leader().wire.silence(FOLLOWER), "nobody follows"
        time.sleep(self.stage.dice.uniform(0.5, 1.5))
        done = super().inject()
        with self.stage.session() as db:
            self.forgetting = since_promotion(db, self.lease)
        self.over = True
        return done
