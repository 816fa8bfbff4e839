"""A shift: one worker process from registering to leaving."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from wakeful.claim.lanes import Lanes
from wakeful.config import NO_ALERTS, AlertSettings, WorkerSettings
from wakeful.database.address import describe
from wakeful.database.line import AsyncLine
from wakeful.database.listen import Ear
from wakeful.observe.observer import NOBODY, Watch
from wakeful.observe.runs import run_of
from wakeful.run.attempt import UNLESS_COMMITTED, Attempt
from wakeful.run.context import Context, SyncContext
from wakeful.run.handler import Handler
from wakeful.run.places import Places
from wakeful.settle.decide import decide
from wakeful.statements import fleet
from wakeful.tend.duty import Duty
from wakeful.values.errors import DatabaseUnavailable, LeaseLapsed, WakefulError
from wakeful.values.outcome import Done, Failed, Outcome, Released
from wakeful.values.schedule import Declaration
from wakeful.values.settlement import Ending, Settlement
from wakeful.values.standing import Standing
from wakeful.wake.listener import Listener
from wakeful.worker.clockwork import Clockwork
from wakeful.worker.crew import Crew
from wakeful.worker.desk import Desk
from wakeful.worker.duties import (
    EarsReport,
    Folding,
    gather_notes,
    renew_own_leases,
    upkeep,
    watch_lease,
    watch_rules,
)
from wakeful.worker.ears import ListenerEars
from wakeful.worker.ending import answered
from wakeful.worker.limits import Limits
from wakeful.worker.loop import Loop
from wakeful.worker.presence import Presence
from wakeful.worker.summary import Summary
from wakeful.worker.writer import Writer

log = logging.getLogger("wakeful.worker")

# How long a worker that stops tries to write what it has done, when the database does not answer.
LAST_WORDS = 5.0
# How long handlers that are asked to end at once may take.
LAST_MOMENT = 1.0
# Fetching is tried again so often, over half a minute, before the worker gives up.
MOST_FAILURES = 12


class Shift:
    """Registers, works until it is told to stop (or, given a budget, until nothing is left), and leaves."""

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
        schedules: Sequence[Declaration] = (),
        watch: Watch = NOBODY,
        alerts: AlertSettings = NO_ALERTS,
    ) -> None:
        self._dsn = dsn
        self._listen_dsn = listen_dsn if budget is None else None
        self._lanes = lanes
        self._settings = settings
        self._keep = keep
        self._budget = budget
        self._started = started
        self._watch = watch
        self._alerts = alerts
        self._clock = asyncio.get_running_loop()
        self._limits = Limits(settings.max_jobs, settings.max_rss)
        self._line = AsyncLine(dsn)
        self._lease_line = AsyncLine(dsn, "wakeful leases")
        tasks = sorted(handlers)
        self._schedules = schedules
        self._clockwork = Clockwork(self._line)
        names = [schedule.name for schedule in schedules]
        self._presence = Presence(dsn, self._line, tasks, lanes, settings.lease, self._lost, names)
        self._writer = Writer(self._line, self._presence)
        poll = settings.poll_interval
        self._loop = Loop(self._line, self._presence, self._writer, tasks, lanes, poll, self._clockwork)
        self._loop.budget = budget
        self._loop.watch = watch
        self._places = Places(lambda run: Context(run, desk), lambda run: SyncContext(run, desk))
        self._crew = self._loop.crew = Crew(handlers, lanes, self._places, self._ended, self._loop.alarm.ring)
        self._crew.arounds = watch.arounds
        self._listening: asyncio.Task[None] | None = None
        self._duties: list[asyncio.Task[None]] = []
        self._told_to_stop = False
        self._stop_by: float | None = None
        self._give_up_at: float | None = None
        self._patience = LAST_WORDS
        self._cut_off = asyncio.Event()
        self._stirred = asyncio.Event()
        self.summary = Summary()

    @property
    def worker_id(self) -> UUID:
        """The id of the registered worker; a new one after its lease lapsed."""
        return self._presence.worker_id

    @property
    def counts(self) -> Mapping[str, int]:
        """What was said to the database, by kind."""
        return {**self._loop.counts, "refused": self._writer.refused, "unstorable": self._writer.unstorable}

    @property
    def standing(self) -> Standing:
        """How it stands. May be asked from any thread."""
        loop = self._loop
        return Standing(
            self.worker_id,
            monotonic() - loop.answered_at,
            self._settings.poll_interval.total_seconds(),
            loop.stopping,
            loop.ears.listens,
            loop.ears.hears,
            self._lanes.slots,
            len(self._crew.running),
            self.counts,
        )

    def stop(self) -> None:
        """Stop claiming; finish what runs, within the shutdown timeout. The second call stops at once."""
        now = self._clock.time()
        if self._told_to_stop:
            self._stop_by = now
            self._patience = LAST_MOMENT
            self._give_up_at = now + 2 * LAST_MOMENT
        else:
            self._told_to_stop = self._loop.stopping = True
            self._stop_by = now + self._settings.shutdown_timeout.total_seconds()
            log.info("worker_stopping", extra={"event": "worker_stopping", "worker_id": str(self.worker_id)})
        self._clock.call_at(self._stop_by, self._loop.alarm.ring)
        self._clock.call_at(self._stop_by + LAST_MOMENT + self._patience, self._cut_off.set)
        self._stirred.set()
        self._loop.alarm.ring()

    async def run(self) -> Summary:
        """Work. Raises only what keeps a worker from working at all."""
        try:
            await self._begin()
            await self._work_or_be_cut_off()
        finally:
            await self._leave()
        return self.summary

    async def _begin(self) -> None:
        await self._presence.register()
        await self._clockwork.declare(self._schedules)
        self._listen()
        crew, alarm = self._crew, self._loop.alarm
        duties: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "lease": lambda: watch_lease(self._presence, crew, alarm),
            "notes": lambda: gather_notes(crew, self._writer, alarm),
            "upkeep": lambda: upkeep(self._dsn, self._keep),
            "metrics": Folding(self._dsn, self.summary).fold,
            "ears": EarsReport(self._lease_line, self._presence, lambda: self._loop.ears).tell,
            "alerts": lambda: watch_rules(self._dsn, self._alerts, self._watch),
            "own leases": lambda: renew_own_leases(self._lease_line, self._presence, crew),
        }
        self._duties = [asyncio.create_task(Duty(name, duty).run()) for name, duty in duties.items()]
        self._watch.started(self.worker_id)
        log.info(
            "worker_started",
            extra={
                "event": "worker_started",
                "worker_id": str(self.worker_id),
                "slots": self._lanes.slots,
                "database": describe(self._dsn),
            },
        )
        if self._started is not None:
            self._started()

    def _listen(self) -> None:
        """Listen under the present worker id."""
        if self._listen_dsn is not None:
            if self._listening is not None:
                self._listening.cancel()
            private = self._presence.hand_channel
            listener = Listener(self._open_ear, self._loop.hear, self._loop.listener_changed, private)
            self._loop.ears = ListenerEars(listener)
            self._listening = asyncio.create_task(Duty("listen", listener.run).run())

    async def _open_ear(self) -> Ear:
        assert self._listen_dsn is not None
        attend = fleet.attend(self.worker_id, self._presence.hand_channel)
        return await Ear.open(self._listen_dsn, [fleet.BROADCAST, fleet.channel_of(self.worker_id)], attend)

    async def _work_or_be_cut_off(self) -> None:
        """A database that neither answers nor hangs up does not keep a worker from ending."""
        working = asyncio.create_task(self._work())
        cutting_off = asyncio.create_task(self._cut_off.wait())
        try:
            await asyncio.wait({working, cutting_off}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cutting_off.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=LAST_MOMENT)
        if working.done() and not working.cancelled():
            working.result()

    async def _work(self) -> None:
        outages = failures = 0
        me = asyncio.current_task()
        assert me is not None
        # Before Python 3.12 a cancellation that meets incoming data can be swallowed on its way here; its count stays.
        while not self._over() and not me.cancelling():
            self._mind_limits()
            self._mind_the_end()
            try:
                if self._presence.lease.lapsed:
                    await self._begin_anew()
                elif not await self._loop.round() and not self._over():
                    if self._crew.idle:
                        self._watch.rested()
                    await self._loop.sleep()
                if self._watch.done or self._watch.pending:
                    self._watch.flush()
                outages = failures = 0
            except LeaseLapsed:
                self._presence.lease.lapsed = True
            except DatabaseUnavailable as error:
                outages += 1
                self._loop.doubt()
                log.warning("database_lost: %s", error, extra={"event": "database_lost"})
                await self._back_off(outages)
            # Fetching must go on: what keeps it from that is logged, counted and tried again, but not for ever.
            except Exception:
                failures += 1
                log.exception("fetch_failed", extra={"event": "fetch_failed", "failures": failures})
                if failures >= MOST_FAILURES:
                    raise
                await self._back_off(failures)

    async def _back_off(self, times: int) -> None:
        """Wait before the next try: ever longer, but not for one who is told to stop."""
        wait = min(0.05 * 2.0 ** min(times, 10), 0.5 if self._told_to_stop else 5.0)
        self._stirred.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait * random.uniform(0.5, 1.5)):
                await self._stirred.wait()

    def _over(self) -> bool:
        if not self._crew.idle:
            return False
        if self._loop.stopping:
            return not len(self._writer) or self._gives_up()
        return self._budget is not None and not len(self._writer) and not (self._lanes.hungry and self._loop.budget)

    def _gives_up(self) -> bool:
        """With nothing left to run, a stopping worker waits only so long for a database that does not answer."""
        if self._give_up_at is None:
            self._give_up_at = self._clock.time() + self._patience
        return self._clock.time() >= self._give_up_at

    def _mind_limits(self) -> None:
        """Stop claiming once a limit is reached; what runs is finished, however long that takes."""
        if not self._loop.stopping and (limit := self._limits.reached(self.summary.processed)) is not None:
            self._loop.stopping = True
            self.summary.limit = limit
            log.info("worker_recycling: %s is reached.", limit, extra={"event": "worker_recycling", "limit": limit})

    def _mind_the_end(self) -> None:
        """While stopping: give back what is not started, and stop what takes too long."""
        if not self._loop.stopping:
            return
        for job in self._crew.hand_back():
            self._writer.gathering.add(Ending(job.id, job.epoch, "released", retry_in=timedelta(0)))
        if self._stop_by is not None and self._clock.time() >= self._stop_by:
            self._stop_by = None
            self._crew.stop(self._crew.running, "shutdown")
            # Handlers get a moment to hear of it; who will not listen is left behind.
            self._clock.call_later(LAST_MOMENT, self._abandon)

    def _abandon(self) -> None:
        self._crew.abandon()
        self._loop.alarm.ring()

    def _lost(self) -> None:
        """The beat thread could not renew the lease: handlers must end before it does."""
        self._clock.call_soon_threadsafe(self._loop.alarm.ring)

    async def _begin_anew(self) -> None:
        """The lease has lapsed: tell the handlers, write what passes the fence still, and register anew."""
        log.warning(
            "lease_lost: worker %s could not renew its lease in time; its jobs are others' now.",
            self.worker_id,
            extra={"event": "lease_lost", "worker_id": str(self.worker_id)},
        )
        self._crew.stop(self._crew.running, "lost")
        self._crew.hand_back()
        self._loop.hand_back()
        await self._writer.flush()
        await self._presence.register_anew()
        self._watch.started(self.worker_id)
        self._loop.begin_anew()
        self._listen()

    def _ended(self, running: Attempt, outcome: Outcome) -> None:
        settlement = decide(running.job, outcome, running.handler.retry)
        if running.notes is not None:
            self._writer.note(running.job, running.take_notes())
        if self._writer.notes:
            self._writer.ends(running.job)
        if settlement is not None:
            self._writer.gathering.add(settlement)
        try:
            self._count(running, outcome, settlement)
        except Exception:  # The job is as good as settled: what is said about it must not keep its slot.
            log.exception("count_failed: job %s", running.job.id, extra={"event": "count_failed"})
        self._loop.ended()

    def _count(self, running: Attempt, outcome: Outcome, settlement: Settlement | None) -> None:
        seconds = self._clock.time() - running.started
        succeeded = isinstance(outcome, Done) or running.settled or outcome is UNLESS_COMMITTED
        if not isinstance(outcome, Released):
            self.summary.add(running.job.task, succeeded, isinstance(outcome, Failed), seconds, running.counted)
        if not succeeded or running.counted or running.handler.log_fields:
            self._tell(running, outcome, settlement, seconds, succeeded)
        elif self._watch.everything:
            self._watch.done.append((running.job, seconds))

    def _tell(
        self, running: Attempt, outcome: Outcome, settlement: Settlement | None, seconds: float, settled: bool
    ) -> None:
        fields = running.handler.fields_of(running.job.payload)
        counted = running.counted
        self._watch.ended(
            run_of(running.job, outcome, settlement, seconds, settled=settled, counters=counted, fields=fields)
        )

    async def _leave(self) -> None:
        # Only a worker that is cancelled, or gives up, still runs or holds any.
        self._crew.hand_back()
        await self._crew.end(LAST_MOMENT)
        self._presence.end_beat()
        beside = [*self._duties, *([self._listening] if self._listening else [])]
        for task in beside:
            task.cancel()
        if beside:
            # Not awaited for ever: before Python 3.12 a cancellation that meets incoming data can be swallowed.
            await asyncio.wait(beside, timeout=LAST_MOMENT)
        self._places.close()
        self._watch.rested()
        if self._watch.lingers:
            await asyncio.to_thread(self._watch.stopped)
        try:
            if not await answered(self._say_farewell(), self._patience):
                raise TimeoutError("the database does not answer")
        except (WakefulError, TimeoutError) as error:
            log.warning(
                "leave_failed: %s; what it holds is rescued when its lease lapses.",
                error,
                extra={"event": "leave_failed"},
            )
        finally:
            await self._line.close()
            await self._lease_line.close()
        log.info("worker_stopped", extra={"event": "worker_stopped", "worker_id": str(self.worker_id)})

    async def _say_farewell(self) -> None:
        await self._writer.flush()
        await self._presence.leave()
