"""Group commit for the coroutines of one event loop.

While a flush is under way, callers gather for the next: no timer, no added latency when there is only one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from typing import Any, NamedTuple, cast
from uuid import UUID

from wakeful.database.session import Awaited, Database
from wakeful.produce.boarding import CROWD, FLIGHTS, ROWS_IN_A_FLUSH, board
from wakeful.produce.delivery import Answer, Ask, deliver_apart
from wakeful.produce.drive import adrive
from wakeful.produce.template import Template
from wakeful.values.job import JobId


class _Caller(NamedTuple):
    ask: Ask
    answer: asyncio.Future[JobId | None]


class _Sent(NamedTuple):
    """A lone caller's job, sent before its flight has taken off."""

    caller: _Caller
    under_way: Awaited[Any]


class LoopGroup:
    """The callers of one loop. Used from that loop only."""

    def __init__(self, database: Database, poke: bool) -> None:
        self._database = database
        self._poke = poke
        self._waiting: deque[_Caller] = deque()
        self._flights: set[asyncio.Task[None]] = set()
        self._aloft = 0
        self._alone = False
        self._sent: _Sent | None = None

    def send_now(self, template: Template, id: UUID, payload: str) -> Awaited[Any] | None:
        """Send a job that comes alone, as the last one did: it does not wait for a task to be made.

        What comes back is for `enqueue`, which is to be called next. None: nothing was done.
        """
        if self._flights or not self._alone or not self._poke:
            return None
        statement = template.alone(id, payload)
        return None if statement is None else self._database.asend_now(statement)

    async def enqueue(self, ask: Ask, under_way: Awaited[Any] | None = None) -> JobId | None:
        """Returns after the commit. Cancelled before its job was sent, a call makes none; later it may."""
        loop = asyncio.get_running_loop()
        caller = _Caller(ask, loop.create_future())
        if under_way is None:
            self._waiting.append(caller)
        else:
            self._sent = _Sent(caller, under_way)
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
            if self._sent is not None:
                sent, self._sent = self._sent, None
                await self._flush([sent.caller], sent.under_way)
            while self._waiting:
                boarded = [caller for caller in board(self._waiting, self._seats()) if not caller.answer.done()]
                if boarded:
                    await self._flush(boarded)
        finally:
            # In the same step as the last look at the line: who comes later must find the seat free.
            self._flights.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _landed(self, flight: asyncio.Task[None]) -> None:
        """One that was cancelled before its first step has seen to nothing: not to its seat, nor to who waits."""
        self._flights.discard(flight)
        if self._sent is not None and not self._flights:
            sent, self._sent = self._sent, None
            sent.under_way.give_up()
            self._waiting.append(sent.caller._replace(ask=sent.caller.ask._replace(sent=True)))
        if not self._flights and any(not caller.answer.done() for caller in self._waiting):
            self._take_off(flight.get_loop())

    async def _flush(self, boarded: Sequence[_Caller], under_way: Awaited[Any] | None = None) -> None:
        self._aloft += 1
        self._alone = len(boarded) == 1
        try:
            delivery = deliver_apart([caller.ask for caller in boarded], self._poke)
            answers = await adrive(delivery, self._database, under_way)
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
