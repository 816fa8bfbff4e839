"""Group commit for threads: whoever comes first flushes for all who came meanwhile.

There is no thread of our own: a caller leads one flush at most, and then hands the lead to one who waits.
"""

from __future__ import annotations

import threading
from collections import deque

from wakeful.database.session import Database
from wakeful.produce.boarding import FLIGHTS, board
from wakeful.produce.delivery import Answer, Ask, deliver_apart
from wakeful.produce.drive import drive
from wakeful.values.job import JobId


class _Caller:
    """A waiting thread. It is woken once: with an answer, or to lead."""

    __slots__ = ("_gate", "answer", "ask", "leads")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.answer: Answer = None
        self.leads = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self) -> None:
        self._gate.acquire()

    def wake(self) -> None:
        self._gate.release()


class ThreadGroup:
    """The callers of one process. Whoever waits, someone else leads."""

    def __init__(self, database: Database, poke: bool) -> None:
        self._database = database
        self._poke = poke
        self._lock = threading.Lock()
        self._waiting: deque[_Caller] = deque()
        self._flights = 0

    def enqueue(self, ask: Ask) -> JobId | None:
        """Returns after the commit."""
        caller = _Caller(ask)
        with self._lock:
            if self._flights < FLIGHTS:
                self._flights += 1
                caller.leads = True
            else:
                self._waiting.append(caller)
        if not caller.leads:
            self._wait(caller)
        if caller.leads:
            self._lead(caller)
        if isinstance(caller.answer, Exception):
            raise caller.answer
        return caller.answer

    def _wait(self, caller: _Caller) -> None:
        try:
            caller.wait()
        except BaseException:  # Ctrl-C: withdraw, and do not take the lead away with us.
            with self._lock:
                if caller in self._waiting:
                    self._waiting.remove(caller)
                if caller.leads:
                    self._hand_over()
            raise

    def _lead(self, leader: _Caller) -> None:
        with self._lock:
            boarded = [leader, *board(self._waiting)]
        try:
            answers = drive(deliver_apart([c.ask for c in boarded], self._poke), self._database)
        except BaseException:  # Ctrl-C in the leader: the others' jobs are sent again, with the same ids.
            followers = boarded[1:]
            for caller in followers:
                caller.ask = caller.ask._replace(sent=True)
            with self._lock:
                self._waiting.extendleft(reversed(followers))
                self._hand_over()
            raise
        for caller, answer in zip(boarded, answers, strict=True):
            caller.answer = answer
        with self._lock:
            self._hand_over()
        for caller in boarded[1:]:
            caller.wake()

    def _hand_over(self) -> None:
        """Under the lock: the next in line leads; with nobody there, the next to come does."""
        if self._waiting:
            leader = self._waiting.popleft()
            leader.leads = True
            leader.wake()
        else:
            self._flights -= 1
