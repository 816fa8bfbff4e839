"""The producer: takes jobs, picks their way into the database, gives back their ids.

With a connection of the caller's they join its transaction. Single jobs without one go by group commit.
What may have to wait for someone else's transaction (a dedup_key), and what fills a statement by itself, goes
alone: half of the pool is for these, so that the shared flush always finds a connection.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from wakeful.config import Settings
from wakeful.database.foreign import arun_on, run_on
from wakeful.database.session import Database
from wakeful.produce.delivery import Ask, Done, deliver_together
from wakeful.produce.drive import adrive, drive
from wakeful.produce.loop_group import LoopGroup
from wakeful.produce.options import Options
from wakeful.produce.patience import pauses
from wakeful.produce.report import report_enqueued, report_off
from wakeful.produce.sending import sent
from wakeful.produce.template import Template
from wakeful.produce.thread_group import ThreadGroup
from wakeful.statements.enqueue import enqueue
from wakeful.statements.statement import Statement
from wakeful.values.errors import InvalidOption, QueueFull
from wakeful.values.identity import new_id
from wakeful.values.job import JobId
from wakeful.values.sending import Sending


class _Threads:
    """What the threads of one process share."""

    def __init__(self, database: Database, poke: bool, alone: int) -> None:
        self.pid = os.getpid()
        self.group = ThreadGroup(database, poke)
        self.alone = threading.BoundedSemaphore(alone)


class _Loop:
    """What the coroutines of one event loop share."""

    def __init__(self, database: Database, poke: bool, alone: int) -> None:
        self.group = LoopGroup(database, poke)
        self.alone = asyncio.BoundedSemaphore(alone)


class Producer:
    """Enqueues; for any number of threads and event loops. A forked child starts afresh."""

    def __init__(self, database: Database, settings: Settings, senders: Sequence[Sending] = ()) -> None:
        self._senders = senders
        self.payload_limit = settings.produce.payload_limit
        self.max_attempts = settings.steering.max_attempts
        self._database = database
        self._pokes = settings.database.notify
        self._off = settings.produce.enqueue_off
        self._alone = settings.database.pool_size // 2
        self._threads = self._new_threads()
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}

    def enqueue(self, template: Template, payload: str) -> JobId | None:
        """Enqueue one job; None where enqueuing of its task is off. Blocks until it is committed."""
        if self._is_off(template.task):
            return None
        if self._senders:
            with sent(self._senders, template, 1) as carrying:
                return self._enqueue(carrying, payload)
        return self._enqueue(template, payload)

    def _enqueue(self, template: Template, payload: str) -> JobId | None:
        if template.shares:
            done = self._of_this_process().group.enqueue(_ask(template, payload))
        else:
            [done] = self._send(template, [payload])
        report_enqueued(template.task, (done,))
        return done

    async def aenqueue(self, template: Template, payload: str) -> JobId | None:
        """Enqueue one job; None where enqueuing of its task is off. Returns when it is committed."""
        if self._is_off(template.task):
            return None
        if not self._senders:
            return await self._aenqueue(template, payload)
        with sent(self._senders, template, 1) as carrying:
            return await self._aenqueue(carrying, payload)

    async def _aenqueue(self, template: Template, payload: str) -> JobId | None:
        if template.shares:
            group, id = self._of_this_loop().group, template.options.id or new_id()
            # What the answer will need is seen to while the server works.
            under_way = group.send_now(template, id, payload)
            done = await group.enqueue(_ask(template, payload, id), under_way)
        else:
            [done] = await self._asend(template, [payload])
        report_enqueued(template.task, (done,))
        return done

    def enqueue_many(self, template: Template, payloads: Sequence[str]) -> Done:
        """Enqueue all or none, in order. Blocks until they are committed."""
        _check_many(template.options)
        if self._is_off(template.task):
            return [None] * len(payloads)
        with sent(self._senders, template, len(payloads)) as carrying:
            done = self._send(carrying, payloads)
        report_enqueued(template.task, done)
        return done

    async def aenqueue_many(self, template: Template, payloads: Sequence[str]) -> Done:
        """Enqueue all or none, in order. Returns when they are committed."""
        _check_many(template.options)
        if self._is_off(template.task):
            return [None] * len(payloads)
        with sent(self._senders, template, len(payloads)) as carrying:
            done = await self._asend(carrying, payloads)
        report_enqueued(template.task, done)
        return done

    async def afinish(self) -> None:
        """Wait for what this event loop has under way."""
        if (mine := self._loops.get(asyncio.get_running_loop())) is not None:
            await mine.group.finish()

    def _send(self, template: Template, payloads: Sequence[str]) -> Done:
        poke = self._poke(template.options)
        # Gone through again for each try.
        asks = list(_asks(template, payloads)) if template.options.patience else _asks(template, payloads)
        if template.options.conn is not None:
            return run_on(template.options.conn, _at_once(asks, poke))
        for pause in pauses(template.options.patience):
            try:
                with self._of_this_process().alone:
                    return drive(deliver_together(asks, poke), self._database)
            except QueueFull:
                if pause is None:
                    raise
            time.sleep(pause)
        raise AssertionError("the last pause is None")

    async def _asend(self, template: Template, payloads: Sequence[str]) -> Done:
        poke = self._poke(template.options)
        # Gone through again for each try.
        asks = list(_asks(template, payloads)) if template.options.patience else _asks(template, payloads)
        if template.options.conn is not None:
            return await arun_on(template.options.conn, _at_once(asks, poke))
        for pause in pauses(template.options.patience):
            try:
                async with self._of_this_loop().alone:
                    return await adrive(deliver_together(asks, poke), self._database)
            except QueueFull:
                if pause is None:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last pause is None")

    def _is_off(self, task: str) -> bool:
        if task not in self._off:
            return False
        report_off(task, "WAKEFUL_ENQUEUE_OFF, or enqueue_off in the settings, names it")
        return True

    def _poke(self, options: Options) -> bool:
        return self._pokes and options.poke is not False

    def _of_this_process(self) -> _Threads:
        if self._threads.pid != os.getpid():
            self._threads = self._new_threads()
        return self._threads

    def _new_threads(self) -> _Threads:
        return _Threads(self._database, self._pokes, self._alone)

    def _of_this_loop(self) -> _Loop:
        loop = asyncio.get_running_loop()
        if (mine := self._loops.get(loop)) is None:
            mine = _Loop(self._database, self._pokes, self._alone)
            # A new dict: another thread may be looking for its own loop, or adding it, which then is added again.
            self._loops = {known: its for known, its in self._loops.items() if not known.is_closed()} | {loop: mine}
        return mine


def _ask(template: Template, payload: str, id: UUID | None = None) -> Ask:
    given = template.options.id
    return Ask(template.job(id or given or new_id(), payload), given is None)


def _asks(template: Template, payloads: Iterable[str]) -> Iterator[Ask]:
    return (_ask(template, payload) for payload in payloads)


def _at_once(asks: Iterable[Ask], poke: bool) -> Statement[Done]:
    """One statement, however many: a connection in autocommit mode would commit each of several."""
    everything = list(asks)
    fresh = all(ask.fresh for ask in everything)
    return enqueue([ask.job for ask in everything], fresh=fresh, poke=poke)


def _check_many(options: Options) -> None:
    if options.id is not None:
        raise InvalidOption("id", "names one job, but many are enqueued: leave it out.")
