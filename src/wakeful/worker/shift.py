"""A shift: one worker process from registering to leaving."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from wakeful.claim.lanes import Lanes
from wakeful.config import WorkerSettings
from wakeful.database.line import AsyncLine, Line
from wakeful.database.listen import Ear
from wakeful.run.attempt import Attempt
from wakeful.run.context import Context, SyncContext
from wakeful.run.handler import Handler
from wakeful.run.places import Places
from wakeful.settle.decide import decide
from wakeful.statements import fleet
from wakeful.tend.beat import BeatThread, Lease
from wakeful.tend.duty import Duty
from wakeful.values.errors import DatabaseUnavailable, LeaseLapsed, WakefulError
from wakeful.values.identity import new_id
from wakeful.values.outcome import Done, Failed, Outcome, Released
from wakeful.values.settlement import Ending
from wakeful.wake.listener import Listener
from wakeful.worker.crew import Crew
from wakeful.worker.desk import Desk
from wakeful.worker.limits import Limits
from wakeful.worker.loop import Ears, Loop
from wakeful.worker.summary import Summary

log = logging.getLogger("wakeful.worker")

UPKEEP_EVERY = 600.0
NOTES_EVERY = 1.0
# How long a worker that stops tries to write what it has done, when the database does not answer.
LAST_WORDS = 5.0


class ListenerEars(Ears):
    """The loop's view of the listener."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    @property
    def hears(self) -> bool:  # type: ignore[override]
        return self._listener.hears

    @property
    def check_at(self) -> float | None:  # type: ignore[override]
        return self._listener.check_at

    def expect_canary(self, number: int, by: float) -> None:
        self._listener.expect_canary(number, by)

    def check(self, now: float) -> None:
        self._listener.check(now)


class BeatLine:
    """The beat thread's own connection."""

    def __init__(self, dsn: str, worker_id: UUID, lease: timedelta) -> None:
        self._line = Line(dsn, "wakeful beat")
        self._statement = fleet.beat(worker_id, lease)

    def beat(self) -> bool:
        """Renew the worker's lease; False when it has lapsed."""
        return self._line.run(self._statement)

    def close(self) -> None:
        """Hang up."""
        self._line.close()


class Shift:
    """Registers, works until it is told to stop (or, given a budget, until there is nothing left), and leaves."""

    def __init__(
        self,
        dsn: str,
        listen_dsn: str | None,
        handlers: Mapping[str, Handler],
        lanes: Lanes,
        settings: WorkerSettings,
        desk: Desk,
        *,
        budget: int | None = None,
        keep: timedelta | None = None,
        started: Callable[[], None] | None = None,
    ) -> None:
        self._dsn = dsn
        self._listen_dsn = listen_dsn
        self._handlers = handlers
        self._lanes = lanes
        self._settings = settings
        self._desk = desk
        self._keep = keep
        self._budget = budget
        self._started = started
        self._limits = Limits(settings.max_jobs, settings.max_rss)
        self.summary = Summary()
        self._clock = asyncio.get_running_loop()
        self._line = AsyncLine(dsn)
        self._lease = Lease(settings.lease)
        self._loop = Loop(self._line, new_id(), sorted(handlers), lanes, self._lease, settings.poll_interval, self._clock)
        self._loop.budget = budget
        self._places = Places(
            lanes.slots, lambda running: Context(running, desk), lambda running: SyncContext(running, desk)
        )
        self._loop.crew = Crew(handlers, lanes, self._places, self._ended)
        self._listener: Listener | None = None
        self._listening: asyncio.Task[None] | None = None
        self._beat: BeatThread | None = None
        self._told_to_stop = False
        self._stop_by: float | None = None
        self._duties: list[asyncio.Task[None]] = []

    @property
    def worker_id(self) -> UUID:
        """The id of the registered worker; a new one after its lease lapsed."""
        return self._loop.worker_id

    @property
    def counts(self) -> Mapping[str, int]:
        """What was said to the database, by kind."""
        return self._loop.counts

    def stop(self) -> None:
        """Stop claiming; finish what runs, within the shutdown timeout. The second call stops at once."""
        now = self._clock.time()
        if self._told_to_stop:
            self._stop_by = now
        else:
            self._told_to_stop = self._loop.stopping = True
            self._stop_by = now + self._settings.shutdown_timeout.total_seconds()
            log.info("worker_stopping", extra={"event": "worker_stopping", "worker_id": str(self.worker_id)})
        self._loop.alarm.ring()

    async def run(self) -> Summary:
        """Work. Raises only what keeps a worker from working at all."""
        await self._begin()
        try:
            await self._work()
        finally:
            await self._leave()
        return self.summary

    async def _begin(self) -> None:
        await self._register()
        if self._listen_dsn is not None and self._budget is None:
            self._listener = Listener(self._open_ear, self._loop.hear, self._loop.listener_back)
            self._loop.ears = ListenerEars(self._listener)
            self._listening = asyncio.create_task(Duty("listen", self._listener.run).run())
        if self._budget is None:
            self._duties = [
                asyncio.create_task(Duty("upkeep", self._upkeep).run()),
                asyncio.create_task(Duty("notes", self._gather_notes).run()),
            ]
        log.info(
            "worker_started",
            extra={"event": "worker_started", "worker_id": str(self.worker_id), "slots": self._lanes.slots},
        )
        if self._started is not None:
            self._started()

    async def _register(self) -> None:
        queues = None if self._lanes.every is not None else self._lanes.queues()[0]
        details = json.dumps({"host": socket.gethostname(), "pid": os.getpid()})
        name = f"{socket.gethostname()}:{os.getpid()}"
        # Counted from before the statement is sent: the server's count begins later.
        self._lease = self._loop._lease = Lease(self._settings.lease)
        await self._line.run(
            fleet.register(
                self.worker_id, name, queues, sorted(self._handlers), self._lanes.slots, self._settings.lease, details
            )
        )
        worker_id, lease = self.worker_id, self._settings.lease
        self._beat = BeatThread(
            self._lease,
            lambda: BeatLine(self._dsn, worker_id, lease),
            lambda: self._clock.call_soon_threadsafe(self._loop.alarm.ring),
        )
        self._beat.start()

    async def _open_ear(self) -> Ear:
        assert self._listen_dsn is not None
        return await Ear.open(self._listen_dsn, [fleet.BROADCAST, fleet.channel_of(self.worker_id)])

    async def _work(self) -> None:
        wait = 0.1
        while not self._over():
            self._mind_limits()
            try:
                if self._lease.lapsed:
                    await self._begin_anew()
                elif not await self._loop.round():
                    self._mind_the_end()
                    if not self._over():
                        await self._loop.sleep()
                wait = 0.1
            except LeaseLapsed:
                self._lease.lapsed = True
            except DatabaseUnavailable as error:
                log.warning("database_lost: %s", error, extra={"event": "database_lost"})
                self._mind_the_end()
                await asyncio.sleep(wait * random.uniform(0.5, 1.5))
                wait = min(wait * 2, 5.0)

    def _mind_limits(self) -> None:
        """Stop claiming once a limit is reached; what runs is finished, however long that takes."""
        if not self._loop.stopping and (limit := self._limits.reached(self.summary.processed)) is not None:
            self._loop.stopping = True
            self.summary.limit = limit
            log.info(
                "worker_recycling: %s is reached.", limit, extra={"event": "worker_recycling", "limit": limit}
            )

    def _mind_the_end(self) -> None:
        """While stopping: give back what is not started, and stop what takes too long."""
        crew = self._loop.crew
        if self._loop.stopping:
            for job in crew.hand_back():
                self._loop.gathering.add(Ending(job.id, job.epoch, "released", retry_in=timedelta(0)))
            if self._stop_by is not None and self._clock.time() >= self._stop_by:
                crew.stop(crew.running, "shutdown")
                # Handlers get a moment to hear of it; who will not listen is left behind.
                self._stop_by = None
                self._clock.call_later(1.0, self._abandon)
            elif self._stop_by is not None:
                self._clock.call_at(self._stop_by, self._loop.alarm.ring)

    def _abandon(self) -> None:
        for id, running in list(self._loop.crew.running.items()):
            running.end()
            del self._loop.crew.running[id]
            self._loop.gathering.add(Ending(id, running.job.epoch, "released", retry_in=timedelta(0)))
        self._loop.alarm.ring()

    def _over(self) -> bool:
        idle = self._loop.crew.idle and not len(self._loop.gathering)
        if self._loop.stopping:
            return idle
        return self._budget is not None and idle and (not self._loop.hungry or self._loop.budget == 0)

    async def _begin_anew(self) -> None:
        """The lease has lapsed: tell the handlers, write what passes the fence still, and register under a new id."""
        log.warning(
            "lease_lost: worker %s could not renew its lease in time; its jobs are others' now.",
            self.worker_id,
            extra={"event": "lease_lost", "worker_id": str(self.worker_id)},
        )
        crew = self._loop.crew
        crew.stop(crew.running, "lost")
        crew.hand_back()
        if self._beat is not None:
            self._beat.end()
        with suppress(LeaseLapsed):
            await self._loop.flush()
        self._loop.worker_id = new_id()
        await self._register()
        self._loop.begin_anew()
        if self._listening is not None and self._listener is not None:
            self._listening.cancel()
            self._listening = asyncio.create_task(Duty("listen", self._listener.run).run())

    def _ended(self, running: Attempt, outcome: Outcome) -> None:
        settlement = decide(running.job, outcome, running.handler.retry)
        if not isinstance(outcome, Released):
            self.summary.add(running.job.task, isinstance(outcome, Done) or running.settled, isinstance(outcome, Failed))
        if running.notes is not None:
            self._loop.notes.append((running.job, running.take_notes()))
        self._loop.ended(settlement)

    async def _gather_notes(self) -> None:
        """What handlers noted while they run is written about once a second."""
        await asyncio.sleep(NOTES_EVERY)
        for running in self._loop.crew.running.values():
            if running.notes is not None:
                self._loop.notes.append((running.job, running.take_notes()))
                self._loop.alarm.ring()

    async def _upkeep(self) -> None:
        await asyncio.sleep(UPKEEP_EVERY * random.uniform(0.5, 1.0))
        line = AsyncLine(self._dsn)
        try:
            await line.run(fleet.upkeep(self._keep))
        finally:
            await line.close()

    async def _leave(self) -> None:
        if self._beat is not None:
            self._beat.end()
        for task in (*self._duties, *([self._listening] if self._listening else [])):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._places.close()
        try:
            async with asyncio.timeout(LAST_WORDS):
                await self._line.run(fleet.leave(self.worker_id))
        except (WakefulError, TimeoutError) as error:
            log.warning("leave_failed: %s; its jobs are rescued when the lease lapses.", error, extra={"event": "leave_failed"})
        await self._line.close()
        log.info("worker_stopped", extra={"event": "worker_stopped", "worker_id": str(self.worker_id)})
