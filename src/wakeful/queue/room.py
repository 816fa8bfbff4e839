"""The waiting room: who in this process waits for work, and which one of them looks next.

Those who wait for the same stand in one group, and whatever happens sends one of them to look: one job makes
one query, however many wait. To be poked, the process declares in the database that it sleeps; every look
renews that, and the one after which nobody waits takes it back.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from wakeful.statements.loops import Declaration

DECLARED_FOR: Final = timedelta(seconds=60)
"""Three polls: the declaration of a process that lives never lapses, that of a killed one does."""

A_MOMENT: Final = 0.1
"""Who commits just as we declare ourselves asleep does not see us; after this long we see its jobs."""

Names = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Wants:
    """What a caller waits for; None stands for all."""

    queues: Names
    tasks: Names


@dataclass(slots=True, eq=False)
class Waiter:
    """One caller. It sleeps while it has a bell; `rung` until the look that it was rung for."""

    group: _Group
    bell: Future[None] | None = None
    rung: bool = False

    def ring(self) -> bool:
        """Send it to look; False if it is awake, or has gone."""
        if self.bell is None or not self.bell.set_running_or_notify_cancel():
            return False
        bell, self.bell, self.rung = self.bell, None, True
        bell.set_result(None)
        return True


@dataclass(slots=True, eq=False)
class _Group:
    wants: Wants
    waiters: list[Waiter] = field(default_factory=list)
    look_at: float = math.inf

    def look(self, now: float) -> None:
        """Send one to look at once, or the next that would fall asleep."""
        if any(waiter.ring() for waiter in self.waiters):
            self.look_at = math.inf
        else:
            self.look_at = min(self.look_at, now)

    def asleep(self) -> bool:
        return any(waiter.bell is not None for waiter in self.waiters)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the table: what it declares, and when it began."""

    declaration: Declaration | None
    began: float
    covered: bool
    """Whether the process had declared as much already."""


class Room:
    """Thread-safe. `changed` is called when the room wants to be attended sooner than it had said."""

    def __init__(self, changed: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._changed = changed
        self._clock = clock
        self._lock = threading.Lock()
        self._groups: dict[Wants, _Group] = {}
        self._declared: Names = frozenset()
        # Looks that begin from then on are conclusive: whoever committed without seeing us asleep is seen.
        self._sure_from = -math.inf
        self.dismissed = False

    def enter(self, wants: Wants) -> Waiter:
        """Join the group that waits for the same. Leave in any case."""
        with self._lock:
            group = self._groups.setdefault(wants, _Group(wants))
            waiter = Waiter(group)
            group.waiters.append(waiter)
            return waiter

    def begin(self, waiter: Waiter, last: bool) -> Look:
        """The waiter is about to look; `last`: it leaves afterwards, whatever it finds."""
        with self._lock:
            waiter.bell, waiter.rung = None, False
            if not any(other.bell is None for other in waiter.group.waiters if other is not waiter):
                waiter.group.look_at = math.inf
            others = sum(len(group.waiters) for group in self._groups.values()) > 1
            declaration: Declaration | None = Declaration(DECLARED_FOR, self._queues(), others)
            if last:
                declaration = None if others else Declaration(timedelta(0))
            return Look(declaration, self._clock(), self._covers(waiter.group.wants))

    def rest(self, waiter: Waiter, look: Look, due_in: float | None, poll: float) -> Future[None]:
        """The look found nothing: fall asleep until the bell rings."""
        with self._lock:
            now, group = self._clock(), waiter.group
            assert look.declaration is not None
            queues = look.declaration.queues
            self._declared = None if queues is None else frozenset(queues)
            # A millisecond more: a clock that is ahead of the server's would look too early, again and again.
            due = math.inf if due_in is None else due_in + 0.001
            group.look_at = min(group.look_at, now + poll, look.began + due)
            if not look.covered:
                self._sure_from = now + A_MOMENT
            if look.began < self._sure_from:
                group.look_at = min(group.look_at, self._sure_from)
            bell: Future[None] = Future()
            waiter.bell = bell
            self._redeclare(now)
        self._changed()
        return bell

    def found(self, look: Look) -> None:
        """The look found something, or was its waiter's last."""
        if look.declaration is not None and not look.declaration.others:
            self.taken_back()

    def taken_back(self) -> None:
        """The declaration is no more. Whoever came in meanwhile must declare it again."""
        with self._lock:
            self._declared = frozenset()
            self._redeclare(self._clock())

    def leave(self, waiter: Waiter) -> None:
        """Go. A bell that rang for it too late rings for another."""
        with self._lock:
            group = waiter.group
            group.waiters.remove(waiter)
            if not group.waiters:
                self._groups.pop(group.wants, None)
            elif waiter.rung:
                group.look(self._clock())
        self._changed()

    def poked(self, queue: str, seconds: float) -> None:
        """Something became runnable in the queue, or will."""
        with self._lock:
            now = self._clock()
            for group in self._serving(queue):
                if seconds > 0:
                    group.look_at = min(group.look_at, now + seconds)
                else:
                    group.look(now)

    def look_everywhere(self) -> None:
        """Something may have been missed: one of each group looks."""
        with self._lock:
            for group in self._groups.values():
                group.look(self._clock())

    def dismiss(self) -> None:
        """Send everyone away, and whoever comes later."""
        with self._lock:
            self.dismissed = True
            for group in self._groups.values():
                for waiter in group.waiters:
                    waiter.ring()

    def attend(self) -> float:
        """Send those to look whose moment has come; the answer is when the next one comes."""
        with self._lock:
            now = self._clock()
            for group in self._groups.values():
                if group.look_at <= now and group.asleep():
                    group.look(now)
            return min((group.look_at for group in self._groups.values() if group.asleep()), default=math.inf)

    def is_empty(self) -> bool:
        """Whether nobody waits."""
        with self._lock:
            return not self._groups

    def sleeps_for_nobody(self) -> bool:
        """Whether the declaration stands though nobody waits."""
        with self._lock:
            return self._declared != frozenset() and (self.dismissed or not self._groups)

    def _redeclare(self, now: float) -> None:
        for group in self._groups.values():
            if not self._covers(group.wants) and group.asleep() and not self.dismissed:
                group.look(now)

    def _covers(self, wants: Wants) -> bool:
        return self._declared is None or (wants.queues is not None and wants.queues <= self._declared)

    def _queues(self) -> Names:
        named = [group.wants.queues for group in self._groups.values()]
        known = [queues for queues in named if queues is not None]
        return None if len(known) < len(named) else frozenset().union(*known)

    def _serving(self, queue: str) -> Iterator[_Group]:
        for group in self._groups.values():
            if group.wants.queues is None or queue in group.wants.queues:
                yield group
