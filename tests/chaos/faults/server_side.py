"""Faults inside a database that lives on: no connection left, a snapshot held, a clock that jumps, too many pokes."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from typing import Any, ClassVar

import psycopg

from tests.chaos.faults.fault import Fault
from tests.chaos.stage import Stage
from tests.sessions import Session, query, session
from wakeful.edges.testing import clock

CUT_WORKERS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where application_name like 'wakeful%' and pid <> pg_backend_pid()"
)


class Connections(Fault):
    """Somebody takes every connection there is, and each that comes free, while the workers lose theirs."""

    name = "connections"
    says = "all connections are used up for a second, and the workers' own cut"
    settings: ClassVar = {"max_connections": "40"}
    lease = 10.0
    pause = (0.5, 1.5)

    def inject(self) -> int:
        """For a second."""
        over = threading.Event()
        with self.stage.session() as db:
            greedy = threading.Thread(target=take_all, args=(self.stage.dsn, over), daemon=True)
            greedy.start()
            try:
                for _ in range(10):
                    query(db, CUT_WORKERS)
                    time.sleep(0.1)
            finally:
                over.set()
                greedy.join(30)
        return 1


def take_all(dsn: str, over: threading.Event) -> None:
    """Take every connection there is, and each that comes free, until it is over."""
    with ExitStack() as taken:
        while not over.wait(0.002):
            with suppress(psycopg.OperationalError):
                taken.enter_context(psycopg.connect(dsn, application_name="greedy"))


class Snapshot(Fault):
    """A transaction holds its snapshot for as long as the load goes on: vacuum can remove nothing."""

    name = "snapshot"
    says = "a snapshot is held while thousands of jobs pass"
    takes_jobs = False
    lease = 30.0
    settings: ClassVar = {"autovacuum": "on", "autovacuum_naptime": "1s"}

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._open = ExitStack()
        self._held = False

    def inject(self) -> int:
        """Take it, once, and send a wave of jobs past it each time."""
        first = not self._held
        if first:
            self._held = True
            holder: Session = self._open.enter_context(session(self.stage.dsn))
            holder.execute("begin isolation level repeatable read")
            query(holder, "select count(*) from wakeful.jobs")
        self.stage.flood(300)
        return int(first)

    def heal(self) -> None:
        """Let go of it."""
        self._open.close()
        super().heal()

    def end(self) -> None:
        """As it heals."""
        self._open.close()


WRONG_SECONDS = 2.0


class DatabaseClock(Fault):
    """The queue's clock jumps. Ahead: every lease lapses at once, and hundreds of slots of the schedule are due.

    Back: nothing is due, and no lease ends, until somebody sets the clock right.
    """

    name = "database-clock"
    says = "the database's clock jumps: ahead by ten minutes, or back by ten and right again after two seconds"
    pause = (1.0, 3.0)

    def prepare(self) -> None:
        """A clock that can jump."""
        with self.stage.session() as db:
            clock.pack(db)

    def inject(self) -> int:
        """Jump, either way."""
        ahead = self.stage.dice.random() < 0.5
        self._travel("10 minutes" if ahead else "-10 minutes")
        if not ahead:
            time.sleep(WRONG_SECONDS)
            self._travel("10 minutes")
        return 1

    def _travel(self, by: str) -> None:
        with self.stage.session() as db:
            clock.travel(db, by)


class Pokes(Fault):
    """Somebody listens and never reads, and a flood of notifications fills the server's queue."""

    name = "pokes"
    says = "a flood of notifications, while one listener is stuck in a transaction"
    takes_jobs = False
    lease = 30.0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._open = ExitStack()

    def prepare(self) -> None:
        """A listener that never takes what it is told: its transaction does not end."""
        stuck: psycopg.Connection[Any] = self._open.enter_context(psycopg.connect(self.stage.dsn))
        stuck.execute("listen wakeful")
        stuck.commit()
        stuck.execute("select 1")

    def inject(self) -> int:
        """Five thousand, on the channel of all workers: look, cancelled, and what is no notice at all."""
        with self.stage.session() as db:
            for payload in ('{"look": true}', '{"cancel": true}', "not a notice", '{"q": "default", "in": 0}'):
                query(db, "select pg_notify('wakeful', %s || repeat(' ', n)) from generate_series(1, 1250) n", payload)
        return 5000

    def heal(self) -> None:
        """The stuck one goes."""
        self._open.close()
        super().heal()

    def end(self) -> None:
        """As it heals."""
        self._open.close()
