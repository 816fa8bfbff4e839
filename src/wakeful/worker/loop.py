"""The loop: one fetcher a process, which settles, claims and sleeps.

Each round does what there is to do in one call to the database: settle what is done and claim the next (a turn), or
either alone, or the pulse. Handlers run while the server works. With nothing to do it sleeps, until a poke, a timer, a
finished job or the pulse.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from wakeful.claim.appetite import Appetite
from wakeful.claim.horizon import Horizon
from wakeful.claim.lanes import Lanes
from wakeful.database.line import AsyncLine
from wakeful.payload import sanitise_json
from wakeful.run.attempt import Notes
from wakeful.settle.flush import flush_halving, in_place_of
from wakeful.settle.gather import Gathering
from wakeful.statements import claim as claiming
from wakeful.statements import settle as settling
from wakeful.statements.claim import Claimed, ClaimRequest, Sleeps
from wakeful.tend.beat import Lease
from wakeful.values.errors import DatabaseUnavailable, LeaseLapsed, WakefulError
from wakeful.values.job import Job
from wakeful.values.settlement import Completion, Ending, Refusal, Settlement
from wakeful.values.wakeup import Look, LookForCancelled, Notice, Poke
from wakeful.wake.alarm import Alarm
from wakeful.worker.crew import Crew

log = logging.getLogger("wakeful.worker")

# A worker that declares itself asleep looks once more after this: a producer that committed while it declared may have
# seen nobody asleep.
MOMENT = 0.05
# Under load nothing falls due unnoticed for longer than this.
TEND_EVERY = 0.5
CANARY_WITHIN = 4.0
DEGRADED_POLL = 2.0


class Ears:
    """What the loop needs to know of the listener; without one, nobody is asked to poke."""

    hears = False
    check_at: float | None = None

    def expect_canary(self, number: int, by: float) -> None:
        """A canary was sent."""

    def check(self, now: float) -> None:
        """Find out whether it is overdue."""


class Loop:
    """State of the fetcher: whether there may be work, until when it sleeps, and what it says to the database."""

    def __init__(
        self,
        line: AsyncLine,
        worker_id: UUID,
        tasks: Sequence[str],
        lanes: Lanes,
        lease: Lease,
        poll: timedelta,
        clock: asyncio.AbstractEventLoop,
    ) -> None:
        self._line = line
        self._tasks = tasks
        self._lanes = lanes
        self._lease = lease
        self._poll = poll.total_seconds()
        self._clock = clock.time
        self.worker_id = worker_id
        self.alarm = Alarm(clock.time)
        self.gathering = Gathering()
        self.notes: list[tuple[Job, Notes]] = []
        self.ears: Ears = Ears()
        self.crew: Crew
        self._horizon = Horizon()
        self._appetite = Appetite()
        self._pulse_at = 0.0
        self._tended_at = 0.0
        self._canary = random.getrandbits(31)
        self.hungry = True
        self.stopping = False
        self.budget: int | None = None
        self._declared = False
        self._woken = False
        self._suspects = False
        self._alone = False
        self._finished = 0
        self.counts: dict[str, int] = {"claims": 0, "empty_claims": 0, "pulses": 0, "refused": 0, "unstorable": 0}

    # What wakes it.

    def hear(self, notice: Notice) -> None:
        """Take a poke: a hint, which costs a query only if it may mean work for this process."""
        match notice:
            case Poke(queue, seconds, position):
                if not self._lanes.serves(queue):
                    return
                if seconds > 0:
                    self.alarm.due_in(seconds)
                    return
                self._horizon.lower(queue, position)
                self._look()
            case Look():
                self._horizon.drop()
                self._look()
            case LookForCancelled():
                self._pulse_at = 0.0
                self.alarm.ring()

    def listener_back(self) -> None:
        """The listener has subscribed: what was notified before is lost, and a canary shows whether it hears."""
        self._pulse_at = 0.0
        self.alarm.ring()

    def _look(self) -> None:
        self.hungry = True
        self._woken = True
        self.alarm.ring()

    def ended(self, settlement: Settlement | None) -> None:
        """An attempt is over."""
        self._finished += 1
        if settlement is not None:
            self.gathering.add(settlement)
        self.alarm.ring()

    # What it does.

    async def round(self) -> bool:
        """Do what there is to do now; False when that was nothing."""
        now = self._clock()
        self.ears.check(now)
        if self.alarm.came_due():
            self.hungry = True
            self._tended_at = 0.0
            if not any(self._limits()):
                # With no slot free, the pulse promotes what is due and pokes who has one.
                self._pulse_at = 0.0
        if self.notes:
            await self._write_notes()
        if endings := self.gathering.take_endings():
            await self._settle(endings)
            return True
        if now >= self._pulse_at and not self.stopping and self.budget is None:
            await self._pulse(now)
            return True
        done = self.gathering.take_done()
        limits = self._limits()
        if not done and not any(limits):
            return False
        if any(limits):
            await self._claim(limits, done, now)
        else:
            await self._complete(done)
        return True

    async def sleep(self) -> None:
        """Sleep until something rings, falls due, or the pulse comes."""
        until = self._pulse_at if self.budget is None and not self.stopping else self._clock() + 1.0
        check_at = self.ears.check_at
        await self.alarm.sleep(until if check_at is None else min(until, check_at))

    def _limits(self) -> list[int]:
        if not self.hungry or self.stopping or self._alone:
            return [0] * len(self._lanes.lanes)
        if self._suspects:
            # Suspects run alone: nothing else is taken until the crew has nothing to do.
            return [1] + [0] * (len(self._lanes.lanes) - 1) if self.crew.idle else [0] * len(self._lanes.lanes)
        extra = max(self._appetite.extra(), self.crew.largest_batch)
        limits = [lane.room(extra) for lane in self._lanes.lanes]
        if self.budget is not None:
            for index, limit in enumerate(limits):
                limits[index] = min(limit, max(0, self.budget - sum(limits[:index])))
        return limits

    def _request(self, limits: Sequence[int], now: float) -> ClaimRequest:
        queues, lanes = self._lanes.queues()
        alone = self._suspects and self.crew.idle
        tend = now - self._tended_at >= TEND_EVERY
        if tend:
            self._tended_at = now
        return ClaimRequest(
            self.worker_id,
            queues,
            lanes if not alone else [1] * len(lanes),
            limits,
            self._tasks,
            None if alone else self._horizon.bounds(queues, now),
            tend=tend,
            sleeps=None if alone else self._sleeps(),
            pass_on=self._woken,
            alone=alone,
        )

    def _sleeps(self) -> Sleeps | None:
        if not self.ears.hears:
            return None
        return "all" if self._lanes.every is not None else "these"

    async def _claim(self, limits: Sequence[int], done: list[Completion], now: float) -> None:
        request = self._request(limits, now)
        self.counts["claims"] += 1
        if done and not request.alone:
            try:
                claimed = await self._line.run(claiming.turn(request, done))
            except (DatabaseUnavailable, LeaseLapsed):
                self.gathering.put_back(done)
                raise
            except WakefulError:
                raise
            # Whatever it was that one statement could not do, two will tell apart.
            except Exception:
                await self._complete(done)
                claimed = await self._line.run(claiming.claim(request))
        else:
            if done:
                await self._complete(done)
            claimed = await self._line.run(claiming.claim(request))
        self._take(claimed, request)

    def _take(self, claimed: Claimed, request: ClaimRequest) -> None:
        now = self._clock()
        self._woken = False
        jobs = claimed.jobs
        if self.budget is not None:
            self.budget -= len(jobs)
        self._note_refused(claimed.report.refused)
        self._alone = request.alone and bool(jobs)
        self._suspects = claimed.report.suspects
        if not jobs:
            self.counts["empty_claims"] += 1
        self._appetite.learn(self._finished)
        self._finished = 0
        short = self._advance(jobs, request, now)
        self.crew.take(jobs)
        if request.alone:
            self.hungry = True
            return
        if not short:
            self._declared = False
            return
        bounded = request.horizon is not None
        self._horizon.drop()
        # Never asleep on a bounded scan: what was given back lies before its start.
        self.hungry = bounded or self._suspects
        if claimed.report.due_in is not None:
            self.alarm.due_in(claimed.report.due_in)
        if request.sleeps is not None and not self._declared:
            self._declared = True
            self.alarm.due_in(MOMENT)

    def _advance(self, jobs: Sequence[Job], request: ClaimRequest, now: float) -> bool:
        """Move the horizon of each lane that got all it asked for; True when one did not."""
        short = False
        for index, limit in enumerate(request.limits):
            if limit <= 0:
                continue
            lane = self._lanes.lanes[index]
            taken = jobs if len(request.limits) == 1 else [job for job in jobs if self._lanes.of(job.queue) is lane]
            if len(taken) < limit:
                short = True
            else:
                self._horizon.advance(lane.queues, max(job.position for job in taken), now)
        return short

    async def _pulse(self, now: float) -> None:
        queues, lanes = self._lanes.queues()
        self.hungry = True
        limits = [0] * len(self._lanes.lanes) if self._suspects else self._limits()
        request = ClaimRequest(
            self.worker_id, queues, lanes, limits, self._tasks, sleeps=self._sleeps() if any(limits) else None
        )
        canary = self._canary if self._listens else None
        if canary is not None:
            # Expected before it is sent: it may be heard before the answer comes.
            self.ears.expect_canary(canary, now + CANARY_WITHIN)
        sent_at = time.monotonic()
        # Set before it is sent: what asks for another pulse meanwhile must not be overwritten.
        self._pulse_at = now + self._interval()
        claimed = await self._line.run(claiming.pulse(request, self._lease.length, canary, self._lanes.every))
        self._lease.renewed(sent_at)
        self.counts["pulses"] += 1
        self._tended_at = now
        self.crew.stop(claimed.report.cancelled, "cancelled")
        if any(limits):
            self._take(claimed, request)
        elif claimed.report.due_in is not None:
            self.alarm.due_in(claimed.report.due_in)

    @property
    def _listens(self) -> bool:
        return type(self.ears) is not Ears

    def _interval(self) -> float:
        interval = self._poll if self.ears.hears or not self._listens else min(self._poll, DEGRADED_POLL)
        return interval * random.uniform(0.9, 1.0)

    async def _complete(self, done: list[Completion]) -> None:
        async def write(rows: Sequence[Completion]) -> list[Refusal]:
            return await self._line.run(settling.complete(self.worker_id, rows))

        try:
            self._note_refusals(await flush_halving(done, write, self._quarantine))
        except WakefulError:
            self.gathering.put_back(done)
            raise

    async def _settle(self, endings: list[Ending]) -> None:
        async def write(rows: Sequence[Ending]) -> list[Refusal]:
            return await self._line.run(settling.settle(self.worker_id, rows))

        try:
            self._note_refusals(await flush_halving(endings, write, self._quarantine))
        except WakefulError:
            self.gathering.put_back(endings)
            raise

    def _quarantine(self, bad: Settlement, error: Exception) -> None:
        self.counts["unstorable"] += 1
        log.error(
            "settlement_refused: job %s: %s", bad.id, error, extra={"event": "settlement_refused", "job_id": str(bad.id)}
        )
        instead = in_place_of(bad, error)
        if bad != instead:
            self.gathering.add(instead)

    def _note_refusals(self, refusals: Sequence[Refusal]) -> None:
        self._note_refused([refusal.id for refusal in refusals if refusal.reason == "stale"])

    def _note_refused(self, ids: Sequence[UUID]) -> None:
        self.counts["refused"] += len(ids)
        for id in ids:
            log.warning(
                "lease_lost: the settlement of job %s came too late and was refused; whoever holds it will finish it.",
                id,
                extra={"event": "lease_lost", "job_id": str(id)},
            )

    async def _write_notes(self) -> None:
        """Before the settlement of its job: what is settled takes no more notes."""
        while self.notes:
            job, notes = self.notes[0]
            progress = None if notes.progress is None else sanitise_json(notes.progress)
            counters = sanitise_json(notes.counters) if notes.counters else None
            await self._line.run(
                settling.note(self.worker_id, job.id, job.epoch, progress=progress, counters=counters)
            )
            self.notes.pop(0)

    async def flush(self) -> None:
        """Write everything that is gathered."""
        await self._write_notes()
        while len(self.gathering):
            if endings := self.gathering.take_endings():
                await self._settle(endings)
            if done := self.gathering.take_done():
                await self._complete(done)

    def begin_anew(self) -> None:
        """The worker has a new id: nothing it knew of its standing holds any more."""
        self._declared = False
        self._suspects = False
        self._alone = False
        self.hungry = True
        self._horizon.drop()
        self._pulse_at = 0.0
