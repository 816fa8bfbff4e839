"""The steady load: producers that write down what they ask for before they ask, and what they are answered."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from tests.chaos.history import History
from wakeful.database.session import Database
from wakeful.produce.delivery import Ask, deliver_apart
from wakeful.produce.drive import drive
from wakeful.values.errors import WakefulError
from wakeful.values.identity import new_id
from wakeful.values.job import NewJob

# How often each task is asked for, of a hundred jobs.
MIX = {"quick": 30, "limited": 5, "effect": 30, "threaded": 10, "flaky": 10, "keyed": 10, "doomed": 5}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One job to be enqueued, under an id that stays its own however often it is sent."""

    id: UUID
    task: str
    payload: Mapping[str, object]
    dedup_key: str | None = None
    priority: int = 0


class Load(threading.Thread):
    """Enqueues about `rate` jobs a second, one by one. Half of what is left unanswered is sent again."""

    def __init__(self, dsn: str, history: History, seed: int, rate: float) -> None:
        super().__init__(name="load", daemon=True)
        self._dsn = dsn
        self._history = history
        self._dice = random.Random(seed)
        self._rate = rate
        self._conn: psycopg.Connection[Any] | None = None
        self._over = threading.Event()
        self.sent = 0

    def run(self) -> None:
        """Send until it is told to end; the job under way is seen through."""
        while not self._over.wait(self._dice.expovariate(self._rate)):
            self.send(self._next())
        self._hang_up()

    def end(self) -> None:
        """Send no more; returns when the last one is answered."""
        self._over.set()
        self.join(120)
        assert not self.is_alive(), "the producer is stuck"

    def send(self, wanted: Wanted) -> None:
        """Enqueue one, and write down how that went."""
        resend = self._dice.random() < 0.5
        self.sent += 1
        for earlier in count():
            self._history.ask((wanted.id, wanted.task))
            try:
                made = self._enqueue(wanted, earlier)
            except (psycopg.Error, WakefulError) as error:
                self._history.lose(wanted.id, getattr(error, "sqlstate", None) or "")
                self._hang_up()
                if not resend:
                    return
                time.sleep(0.02)
            else:
                self._history.answer((wanted.id, made))
                return

    def _next(self) -> Wanted:
        [task] = self._dice.choices(list(MIX), list(MIX.values()))
        key = f"key {self._dice.randrange(5)}" if task == "keyed" else None
        return Wanted(new_id(), task, {}, key)

    def _enqueue(self, wanted: Wanted, earlier: int) -> UUID:
        """Send it, which was done so many times `earlier`."""
        if self._conn is None:
            self._conn = psycopg.connect(self._dsn, autocommit=True, connect_timeout=5, prepare_threshold=None)
        return enqueue(self._conn, wanted)

    def _hang_up(self) -> None:
        if self._conn is not None:
            with suppress(psycopg.Error):
                self._conn.close()
            self._conn = None


class ClientLoad(Load):
    """The same by wakeful's own client, which sends again by itself what it is not answered."""

    def __init__(self, dsn: str, history: History, seed: int, rate: float) -> None:
        super().__init__(dsn, history, seed, rate)
        self._database = Database(dsn)

    def _enqueue(self, wanted: Wanted, earlier: int) -> UUID:
        job = NewJob(wanted.id, wanted.task, json.dumps(dict(wanted.payload)), dedup_key=wanted.dedup_key)
        [answer] = drive(deliver_apart([Ask(job, fresh=not earlier)], poke=True), self._database)
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None
        return answer

    def _hang_up(self) -> None:
        self._database.close()


def enqueue(conn: psycopg.Connection[Any], wanted: Wanted) -> UUID:
    """Enqueue by the public function; the job that stands for it."""
    row = conn.execute(
        "select wakeful.enqueue(%s, %s, id => %s, dedup_key => %s, priority => %s)",
        [wanted.task, Jsonb(dict(wanted.payload)), wanted.id, wanted.dedup_key, wanted.priority],
    ).fetchone()
    assert row is not None
    [made] = row.values() if isinstance(row, dict) else row
    return UUID(str(made))


def enqueue_all(conn: psycopg.Connection[Any], history: History, wanted: Sequence[Wanted]) -> list[UUID]:
    """Enqueue many at once, on a link that holds."""
    history.ask(*((one.id, one.task) for one in wanted))
    with conn.transaction():
        made = [enqueue(conn, one) for one in wanted]
    history.answer(*zip((one.id for one in wanted), made, strict=True))
    return made
