"""How many waiting callers go with one flush."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol, TypeVar

from wakeful.produce.delivery import Ask

FLIGHTS: Final = 2
"""Flushes that may be under way at once. With one, the server waits while the client works, and the reverse; a third
only makes the groups smaller."""

CROWD: Final = 64
"""So many callers at once are shared between two flushes. Smaller ones cost more to send than they gain."""

ROWS_IN_A_FLUSH: Final = 1000
PAYLOAD_IN_A_FLUSH: Final = 4 * 1024 * 1024
"""In characters: one caller's large payload should not make a hundred others wait for its way."""


class Waiting(Protocol):
    """A caller who waits for an answer."""

    @property
    def ask(self) -> Ask: ...


W = TypeVar("W", bound=Waiting)


def board(waiting: deque[W], most: int = ROWS_IN_A_FLUSH) -> list[W]:
    """Take from the head of the line as many as may go at once, and at least one."""
    boarded: list[W] = []
    room = PAYLOAD_IN_A_FLUSH
    while waiting and len(boarded) < most and (room > 0 or not boarded):
        caller = waiting.popleft()
        room -= len(caller.ask.job.payload)
        boarded.append(caller)
    return boarded
