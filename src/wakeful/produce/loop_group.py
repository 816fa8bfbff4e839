"""Group commit for the coroutines of one event loop.

While a flush is under way, callers gather for the next: no timer, no added latency when there is only one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context
from typing import NamedTuple, cast

from wakeful.database.session import Database
from wakeful.produce.boarding import CROWD, FLIGHTS, ROWS_IN_A_FLUSH, board
from wakeful.produce.delivery import Answer, Ask, deliver_apart
from wakeful.produce.drive import adrive
from wakeful.values.job import JobId


class _Caller(NamedTuple):
    ask: Ask
    answer: asyncio.Future[JobId | None]


class LoopGroup:
    """The callers of one loop. Used from that loop only."""

    def __init__(self, database: Database, poke: bool) -> None:
        self._database = database
        self._poke = poke
        self._waiting: deque[_Caller] = deque()
        self._flights: set[asyncio.Task[None]] = set()
        self._aloft = 0

    async def enqueue(self, ask: Ask) -> JobId | None:
        """Returns after the commit. Cancelled before its job was sent, a call makes none; later it may."""
        loop = asyncio.get_running_loop()
        caller = _Caller(ask, loop.create_future())
        self._waiting.append(caller)
        if len(self._flights) < FLIGHTS:
            self._take_off(loop)
        return await caller.answer

    async def finish(self) -> None:
        """Waits for what is under way."""
        while self._flights:
            await asyncio.wait(self._flights)

    def _take_off(self, loop: asyncio.AbstractEventLoop) -> None:
        # In a context of its own: a flush is nobody's request in particular.
        flight = loop.create_task(self._fly(), name="wakeful enqueue", context=Context())
        self._flights.add(flight)
        flight.add_done_callback(self._landed)

    async def _fly(self) -> None:
        try:
            while self._waiting:
                await self._flush()
        finally:
            # In the same step as the last look at the line: who comes later must find the seat free.
            self._flights.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _landed(self, flight: asyncio.Task[None]) -> None:
        """One that was cancelled before its first step has seen to nothing: not to its seat, nor to who waits."""
        self._flights.discard(flight)
        if not self._flights and any(not caller.answer.done() for caller in self._waiting):
            self._take_off(flight.get_loop())

    async def _flush(self) -> None:
        boarded = [caller for caller in board(self._waiting, self._seats()) if not caller.answer.done()]
        if not boarded:
            return
        self._aloft += 1
        try:
            answers = await adrive(deliver_apart([c.ask for c in boarded], self._poke), self._database)
        except BaseException:  # The loop is ending, or we are wrong: nobody is left waiting.
            for caller in (*boarded, *self._waiting):
                caller.answer.cancel()
            self._waiting.clear()
            raise
        finally:
            self._aloft -= 1
        for caller, answer in zip(boarded, answers, strict=True):
            _tell(caller.answer, answer)

    def _seats(self) -> int:
        """Callers who were answered together come back together: with nothing under way, half of a crowd is left to the
        other flight, or the two would never overlap."""
        crowd = len(self._waiting)
        return min(crowd // 2 if crowd >= CROWD and not self._aloft else crowd, ROWS_IN_A_FLUSH)


def _tell(future: asyncio.Future[JobId | None], answer: Answer) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
