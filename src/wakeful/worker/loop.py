"""The loop: one fetcher a process, which settles, claims and sleeps.

Each round does what there is to do in one call to the database: settle what is done and claim the next (a turn), or
either alone, or the pulse. Handlers run while the server works. With nothing to do it sleeps, until a poke, a timer,
a finished job or the pulse.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from datetime import timedelta

from wakeful.claim.appetite import Appetite
from wakeful.claim.horizon import Horizon
from wakeful.claim.lanes import Lanes
from wakeful.database.line import AsyncLine
from wakeful.statements import claim as claiming
from wakeful.statements import fleet, loops
from wakeful.statements.claim import Claimed, ClaimRequest, Sleeps
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable, WakefulError
from wakeful.values.job import Job
from wakeful.values.settlement import Completion, Ending
from wakeful.values.wakeup import Look, LookForCancelled, Notice, Poke
from wakeful.wake.alarm import Alarm
from wakeful.worker.crew import Crew
from wakeful.worker.ears import Ears
from wakeful.worker.presence import Presence
from wakeful.worker.writer import Writer

# A worker that declares itself asleep looks once more after this: a producer that committed while it declared may
# have seen nobody asleep.
MOMENT = 0.05
# Under load nothing falls due unnoticed for longer than this.
TEND_EVERY = 0.5
CANARY_WITHIN = 4.0
DEGRADED_POLL = 2.0


class Loop:
    """State of the fetcher: whether there may be work, and until when it sleeps."""

    def __init__(
        self,
        line: AsyncLine,
        presence: Presence,
        writer: Writer,
        tasks: Sequence[str],
        lanes: Lanes,
        poll: timedelta,
    ) -> None:
        self._line = line
        self._presence = presence
        self._writer = writer
        self._tasks = tasks
        self._lanes = lanes
        self._poll = poll.total_seconds()
        self._clock = asyncio.get_running_loop().time
        self._horizon = Horizon()
        self._appetite = Appetite()
        self._pulse_at = 0.0
        self._tended_at = 0.0
        self._canary = random.getrandbits(31)
        self._looks = 0
        self._declared = False
        self._woken = False
        self._suspects = False
        self._alone = False
        self._finished = 0
        self._unsure = False
        self._unsure_until = 0.0
        self.crew: Crew
        self.alarm = Alarm(self._clock)
        self.ears = Ears()
        self.hungry = True
        self.stopping = False
        self.budget: int | None = None
        self.counts = {"claims": 0, "empty_claims": 0, "pulses": 0}

    # What wakes it.

    def hear(self, notice: Notice) -> None:
        """Take a poke: a hint, which costs a query only if it may mean work for this process."""
        match notice:
            case Poke(queue, seconds, position):
                if self._lanes.serves(queue):
                    if seconds > 0:
                        self.alarm.due_in(seconds)
                    else:
                        self._horizon.lower(queue, position)
                        self._look()
            case Look():
                self._horizon.drop()
                self._look()
            case LookForCancelled():
                self.pulse_soon()

    def pulse_soon(self) -> None:
        """Pulse now: a listener is back, and what was notified before is lost; or a job was cancelled."""
        self._pulse_at = 0.0
        self.alarm.ring()

    def ended(self) -> None:
        """An attempt is over."""
        self._finished += 1
        self.alarm.ring()

    def begin_anew(self) -> None:
        """The worker has a new id: nothing it knew of its standing holds any more."""
        self._declared = self._suspects = self._alone = self._unsure = False
        self._unsure_until = 0.0
        self._horizon.drop()
        self._look()
        self.pulse_soon()

    def _look(self) -> None:
        self._looks += 1
        self._woken = self.hungry = True
        self.alarm.ring()

    # What it does.

    async def round(self) -> bool:
        """Do what there is to do now; False when that was nothing."""
        now = self._clock()
        self.ears.check(now)
        self._mind_the_clock()
        await self._writer.write_notes()
        if self._unsure:
            await self._give_back_unheard()
        if endings := self._writer.gathering.take_endings():
            await self._writer.settle(endings)
            return True
        if now >= self._pulse_at and not self.stopping:
            await self._pulse(now)
            return True
        done = self._writer.gathering.take_done()
        limits = self._limits()
        if any(limits):
            await self._claim(limits, done, now)
        elif done:
            await self._writer.complete(done)
        else:
            return False
        return True

    async def sleep(self) -> None:
        """Sleep until something rings, falls due, or the pulse comes."""
        until = self._clock() + 1.0 if self.stopping else self._pulse_at
        check_at = self.ears.check_at
        await self.alarm.sleep(until if check_at is None else min(until, check_at))

    def _mind_the_clock(self) -> None:
        if self.alarm.came_due():
            self.hungry = True
            self._tended_at = 0.0
            if not any(self._limits()):
                # With no slot free, the pulse promotes what is due and pokes who has one.
                self._pulse_at = 0.0

    def _limits(self) -> list[int]:
        """How many jobs to ask for, for each lane."""
        none = [0] * len(self._lanes.lanes)
        if not self.hungry or self.stopping or self._alone:
            return none
        if self._suspects:
            # Suspects run alone: nothing else is taken until the crew has nothing to do.
            return [1, *none[1:]] if self.crew.idle else none
        extra = max(self._appetite.extra(), self.crew.largest_batch)
        limits = [lane.room(extra) for lane in self._lanes.lanes]
        if self.budget is not None:
            for index, limit in enumerate(limits):
                limits[index] = min(limit, max(0, self.budget - sum(limits[:index])))
        return limits

    def _request(self, limits: Sequence[int], now: float) -> ClaimRequest:
        queues, lanes = self._lanes.queues()
        alone = self._suspects
        tend = now - self._tended_at >= TEND_EVERY
        if tend:
            self._tended_at = now
        return ClaimRequest(
            self._presence.worker_id,
            queues,
            [1] * len(lanes) if alone else lanes,
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
        looks = self._looks
        self._woken = False
        self.counts["claims"] += 1
        if done and not request.alone:
            claimed = await self._turn(request, done)
        else:
            if done:
                await self._writer.complete(done)
            claimed = await self._run_claim(claiming.claim(request))
        self._take(claimed, request, looks)

    async def _turn(self, request: ClaimRequest, done: list[Completion]) -> Claimed:
        try:
            return await self._run_claim(claiming.turn(request, done))
        except WakefulError:
            self._writer.gathering.put_back(done)
            raise
        except Exception:
            # Whatever it was that one statement could not do, two will tell apart.
            await self._writer.complete(done)
            return await self._run_claim(claiming.claim(request))

    def _take(self, claimed: Claimed, request: ClaimRequest, looks: int) -> None:
        report, jobs = claimed.report, claimed.jobs
        if self.budget is not None:
            self.budget -= len(jobs)
        self._writer.note_refused(report.refused)
        self._suspects = report.suspects
        self.counts["empty_claims"] += not jobs
        self._appetite.learn(self._finished)
        self._finished = 0
        if self.stopping:
            for job in jobs:
                self._writer.gathering.add(Ending(job.id, job.epoch, "released", retry_in=timedelta(0)))
            return
        self._alone = request.alone and bool(jobs)
        if request.alone:
            self.crew.take(jobs, alone=self._over_alone)
            return
        short = self._advance(jobs, request)
        self.crew.take(jobs)
        if not short:
            self._declared = False
            return
        self._horizon.drop()
        # Never asleep on a bounded scan: what was given back lies before its start. Nor when something came meanwhile.
        self.hungry = request.horizon is not None or self._suspects or self._looks != looks
        if report.due_in is not None:
            self.alarm.due_in(report.due_in)
        if request.sleeps is not None and not self._declared:
            self._declared = True
            self.alarm.due_in(MOMENT)

    def _over_alone(self) -> None:
        self._alone = False
        self._look()

    def _advance(self, jobs: Sequence[Job], request: ClaimRequest) -> bool:
        """Move the horizon of each lane that got all it asked for; True when one did not."""
        short = False
        for lane, limit in zip(self._lanes.lanes, request.limits, strict=True):
            if limit <= 0:
                continue
            taken = jobs if len(request.limits) == 1 else [job for job in jobs if self._lanes.of(job.queue) is lane]
            if len(taken) < limit:
                short = True
            else:
                self._horizon.advance(lane.queues, max(job.position for job in taken), self._clock())
        return short

    async def _pulse(self, now: float) -> None:
        queues, lanes = self._lanes.queues()
        # With a budget, what comes later is left to others.
        self.hungry = self.hungry or self.budget is None
        self._unsure = self._unsure or now < self._unsure_until
        limits = [0] * len(self._lanes.lanes) if self._suspects else self._limits()
        asks = any(limits)
        request = ClaimRequest(
            self._presence.worker_id,
            queues,
            lanes,
            limits,
            self._tasks,
            sleeps=self._sleeps() if asks else None,
        )
        # Set before it is sent: what asks for another pulse meanwhile must not be overwritten.
        self._pulse_at = now + self._interval()
        self._tended_at = now
        looks, lease, sent_at = self._looks, self._presence.lease, time.monotonic()
        self.counts["pulses"] += 1
        claimed = await self._send_pulse(request, lease.length)
        lease.renewed(sent_at)
        self.crew.cancel(claimed.report.cancelled)
        if asks:
            self._take(claimed, request, looks)
        elif claimed.report.due_in is not None:
            self.alarm.due_in(claimed.report.due_in)

    async def _send_pulse(self, request: ClaimRequest, lease: timedelta) -> Claimed:
        canary = self._canary if self.ears.listens else None
        self.ears.expect_canary()
        overdue_at = None
        try:
            if self._declared and not self.ears.hears:
                # Pokes go to a few sleepers only: one that cannot hear must not be among them.
                await self._line.run(loops.wake(request.worker_id))
                self._declared = False
            claimed = await self._run_claim(claiming.pulse(request, lease, canary, self._lanes.every))
            overdue_at = self._clock() + CANARY_WITHIN
        except Exception:
            # Whatever it was, the pulse has not gone out.
            self._pulse_at = 0.0
            raise
        finally:
            self.ears.canary_sent(overdue_at)
        return claimed

    async def _run_claim(self, statement: Statement[Claimed]) -> Claimed:
        try:
            return await self._line.run(statement)
        except DatabaseUnavailable:
            # It may have been taken all the same, and once more by a server that is slow to notice.
            self._unsure_until = self._clock() + 2 * self._presence.lease.length.total_seconds()
            self._unsure = True
            raise

    async def _give_back_unheard(self) -> None:
        """Release what an answer that was lost told of: it is held in our name, and nobody here knows of it."""
        held = await self._line.run(fleet.held(self._presence.worker_id))
        known = self.crew.claims() | self._writer.gathering.claims()
        for id, epoch in held:
            if (id, epoch) not in known:
                self._writer.gathering.add(Ending(id, epoch, "released", retry_in=timedelta(0)))
        self._unsure = False

    def _interval(self) -> float:
        trusted = self.ears.hears or not self.ears.listens
        return (self._poll if trusted else min(self._poll, DEGRADED_POLL)) * random.uniform(0.9, 1.0)
