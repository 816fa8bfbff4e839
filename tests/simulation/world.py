"""The world of a simulated worker: a real PostgreSQL whose clock is the loop's, and a network made of dice.

Statements run one at a time, at moments that the seed decides; before or after one the link may be lost. Notifications
are those that PostgreSQL sends, and arrive late or never.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

from psycopg import Notify, sql

import wakeful.run.failure
import wakeful.tend.beat
import wakeful.tend.duty
import wakeful.values.retry
import wakeful.wake.listener
import wakeful.worker.calls
import wakeful.worker.duties
import wakeful.worker.loop
import wakeful.worker.presence
import wakeful.worker.shift
from tests.sessions import Session
from wakeful.database.fetch import fetch
from wakeful.database.listen import Heard
from wakeful.statements import fleet
from wakeful.statements.statement import Statement
from wakeful.tend.beat import BeatThread
from wakeful.values.errors import DatabaseUnavailable

T = TypeVar("T")
BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)

RANDOM: tuple[Any, ...] = (
    *(wakeful.worker.calls, wakeful.worker.duties, wakeful.worker.loop, wakeful.worker.shift),
    *(wakeful.wake.listener, wakeful.tend.duty, wakeful.run.failure, wakeful.values.retry),
)


class World:
    """What workers reach over the network. `trouble` is the chance that a call, a poke or an ear is lost."""

    def __init__(self, db: Session, dice: random.Random) -> None:
        self.db = db
        self.dice = dice
        self.loop = asyncio.get_running_loop()
        self.trouble = 0.0
        self.pokes = True
        self.statements: Counter[str] = Counter()
        self.ears: list[Ear] = []
        self._told: list[Notify] = []

    @contextmanager
    def inhabited(self) -> Iterator[None]:
        """While it is, notifications are noted."""
        self.db.add_notify_handler(self._told_of)
        try:
            yield
        finally:
            self.db.remove_notify_handler(self._told_of)
            self.db.execute("unlisten *")

    def _told_of(self, notice: Notify) -> None:
        self._told.append(notice)

    def at(self, seconds: float | None = None) -> datetime:
        """A moment of the loop as the database knows it; none: now."""
        return BEGINNING + timedelta(seconds=self.loop.time() if seconds is None else seconds)

    def run(self, statement: Statement[T]) -> T:
        """Run at this moment, and pass on what is notified."""
        self.tell_time()
        self.statements[statement_name(statement.sql)] += 1
        try:
            return fetch(self.db, statement)
        finally:
            self.pass_on()

    def tell_time(self) -> None:
        """The database's clock is this loop's."""
        self.db.execute("select set_config('test.now', %s, false)", [self.at().isoformat()])

    def lost(self) -> bool:
        """Whether this one does not arrive."""
        return self.dice.random() < self.trouble

    def listen(self, channels: Sequence[str]) -> None:
        """The one session takes these too."""
        for channel in channels:
            self.db.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    def pass_on(self) -> None:
        """Send what was notified on its way: a moment, or some seconds, or for ever."""
        # A session hears its own notifications with the answer to the statement that sent them.
        told, self._told = self._told, []
        for notice in told:
            for ear in self.ears:
                if notice.channel in ear.channels and self.pokes and not self.lost():
                    delay = self.dice.uniform(0, 3) if self.lost() else self.dice.uniform(0, 0.01)
                    self.loop.call_later(delay, ear.told.put_nowait, notice.payload)


def statement_name(text: str) -> str:
    """The function that a statement calls."""
    return text.partition("wakeful.")[2].partition("(")[0]


class Line:
    """In the place of a connection of the worker's own: calls take a moment, and may be lost on either way."""

    world: World

    def __init__(self, dsn: str, name: str = "") -> None:
        self.name = name

    async def run(self, statement: Statement[T]) -> T:
        """Run and commit, or lose the link: before the statement is there, or before the answer is back."""
        world = self.world
        await asyncio.sleep(world.dice.uniform(0.0002, 0.003))
        if world.lost():
            await asyncio.sleep(world.dice.uniform(0, 2))
            raise DatabaseUnavailable("The call is lost.")
        answer = world.run(statement)
        await asyncio.sleep(world.dice.uniform(0.0002, 0.003))
        if world.lost():
            await asyncio.sleep(world.dice.uniform(0, 2))
            raise DatabaseUnavailable("The answer is lost.")
        return answer

    async def close(self) -> None:
        """Nothing to hang up."""


class Ear:
    """In the place of the listening connection."""

    world: World

    def __init__(self, channels: Sequence[str]) -> None:
        self.channels = set(channels)
        self.told: asyncio.Queue[str | None] = asyncio.Queue()

    @classmethod
    async def open(cls, dsn: str, channels: Sequence[str], attend: Statement[None]) -> Ear:
        """Subscribed, after a moment; or not."""
        await asyncio.sleep(cls.world.dice.uniform(0, 0.01))
        if cls.world.lost():
            raise DatabaseUnavailable("Nobody answers.")
        ear = cls(channels)
        cls.world.listen(channels)
        cls.world.ears.append(ear)
        return ear

    async def listen(self, hear: Callable[[Heard], None], /) -> None:
        """What comes, until the link is lost."""
        while (payload := await self.told.get()) is not None:
            hear(Heard(fleet.BROADCAST, payload))
        raise DatabaseUnavailable("The link is lost.")

    async def close(self) -> None:
        """Hear no more."""
        if self in self.world.ears:
            self.world.ears.remove(self)


class Moment:
    """In the place of the event on which the beat's thread waits: here its loop does the waiting."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """It is over."""
        self._set = True

    def is_set(self) -> bool:
        """Whether it is over."""
        return self._set

    def wait(self, seconds: float) -> bool:
        """Whether it is over."""
        return self._set


class Beat(BeatThread):
    """The beat's own logic, on the loop instead of in a thread."""

    def start(self) -> None:
        """Begin to watch."""
        self._ended = Moment()  # type: ignore[assignment]
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        threshold = self._lease.length.total_seconds() * 0.72
        while not self._ended.is_set() and not self._lease.lapsed:
            if self._lease.age >= threshold:
                self._beat()
            await asyncio.sleep(max(0.05, threshold - self._lease.age))


class Beater:
    """The beat's own connection."""

    world: World

    def __init__(self, dsn: str, worker_id: UUID, lease: timedelta) -> None:
        self._statement = fleet.beat(worker_id, lease)

    def beat(self) -> bool:
        """Renew the lease, or lose the link."""
        if self.world.lost():
            raise DatabaseUnavailable("The beat is lost.")
        return self.world.run(self._statement)

    def close(self) -> None:
        """Nothing to hang up."""


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Workers that are made in this block live in the world: its clock, its network."""
    clock = SimpleNamespace(monotonic=world.loop.time)
    shift, presence = wakeful.worker.shift, wakeful.worker.presence
    places: list[tuple[Any, str, object]] = [
        (shift, "AsyncLine", type("WorldLine", (Line,), {"world": world})),
        (wakeful.worker.duties, "AsyncLine", type("WorldLine", (Line,), {"world": world})),
        (shift, "Ear", type("WorldEar", (Ear,), {"world": world})),
        (presence, "BeatThread", Beat),
        (presence, "BeatLine", type("WorldBeater", (Beater,), {"world": world})),
        (presence, "new_id", lambda: UUID(int=world.dice.getrandbits(128), version=4)),
        (wakeful.tend.beat, "time", clock),
        (wakeful.worker.calls, "time", clock),
        # Threads that other tests left behind draw from the one that all share.
        *((module, "random", random.Random(world.dice.random())) for module in RANDOM),
    ]
    kept = [(where, name, getattr(where, name)) for where, name, _ in places]
    try:
        for where, name, instead in places:
            setattr(where, name, instead)
        yield
    finally:
        for where, name, original in kept:
            setattr(where, name, original)
