"""Group commit for the coroutines of one event loop.

While a flush is under way, callers gather for the next: no timer, no added latency when there is only one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from typing import Any, NamedTuple, cast

from wakeful.database.session import Awaited, Database
from wakeful.produce.boarding import CROWD, FLIGHTS, ROWS_IN_A_FLUSH, board
from wakeful.produce.delivery import Answer, Ask, Delivery, Send, deliver_apart
from wakeful.produce.drive import adrive
from wakeful.values.job import JobId


class _Caller(NamedTuple):
    ask: Ask
    answer: asyncio.Future[JobId | None]


class _Sent(NamedTuple):
    """A lone caller's job, sent before its flight has taken off."""

    caller: _Caller
    delivery: Delivery[list[Answer]]
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

    async def enqueue(self, ask: Ask) -> JobId | None:
        """Returns after the commit. Cancelled before its job was sent, a call makes none; later it may."""
        loop = asyncio.get_running_loop()
        caller = _Caller(ask, loop.create_future())
        # Who comes alone, as the last one did, does not wait for a task to be made: the server works meanwhile.
        if self._flights or not self._alone or not self._send_now(caller):
            self._waiting.append(caller)
        if len(self._flights) < FLIGHTS:
            self._take_off(loop)
        return await caller.answer

    async def finish(self) -> None:
        """Waits for what is under way."""
        while self._flights:
            await asyncio.wait(self._flights)

    def _send_now(self, caller: _Caller) -> bool:
        delivery = deliver_apart([caller.ask], self._poke)
        first = next(delivery)
        under_way = self._database.asend_now(first.statement) if isinstance(first, Send) else None
        if under_way is not None:
            self._sent = _Sent(caller, delivery, under_way)
        return under_way is not None

    def _take_off(self, loop: asyncio.AbstractEventLoop) -> None:
        # In a context of its own: a flush is nobody's request in particular.
        flight = loop.create_task(self._fly(), name="wakeful enqueue", context=Context())
        self._flights.add(flight)
        flight.add_done_callback(self._landed)

    async def _fly(self) -> None:
        try:
            if self._sent is not None:
                sent, self._sent = self._sent, None
                await self._flush([sent.caller], sent.delivery, sent.under_way)
            while self._waiting:
                boarded = [caller for caller in board(self._waiting, self._seats()) if not caller.answer.done()]
                if boarded:
                    await self._flush(boarded, deliver_apart([caller.ask for caller in boarded], self._poke))
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

    async def _flush(
        self, boarded: Sequence[_Caller], delivery: Delivery[list[Answer]], under_way: Awaited[Any] | None = None
    ) -> None:
        self._aloft += 1
        self._alone = len(boarded) == 1
        try:
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
