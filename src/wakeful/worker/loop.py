"""The loop: one fetcher a process, which settles, claims and sleeps.

Each round does what there is to do in one call to the database: settle what is done and claim the next (a turn), or
either alone, or the pulse. Handlers run while the server works. With nothing to do it sleeps, until a poke, a timer,
a finished job or the pulse.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic
from uuid import UUID

from wakeful.claim.lanes import Lanes
from wakeful.database.line import AsyncLine
from wakeful.database.notices import log_breaker
from wakeful.observe.observer import NOBODY
from wakeful.statements.claim import Claimed, ClaimRequest
from wakeful.values.job import Job
from wakeful.values.settlement import Completion, Ending
from wakeful.values.wakeup import BreakerSteered, Handed, Look, LookForCancelled, Notice, Poke
from wakeful.wake.alarm import Alarm
from wakeful.worker.asking import Asking
from wakeful.worker.calls import Calls
from wakeful.worker.clockwork import Clockwork
from wakeful.worker.crew import Crew
from wakeful.worker.ears import Ears
from wakeful.worker.handing import Handing
from wakeful.worker.presence import Presence
from wakeful.worker.writer import Writer

# Under load nothing falls due unnoticed for longer than this.
TEND_EVERY = 0.5
DEGRADED_POLL = 2.0
# A schedule that someone has locked is tried again after so long.
HELD_UP = 0.5
COUNTED = (
    *("claims", "empty_claims", "pulses", "notifications", "poll_scanned"),
    *("woken_by_poke", "woken_by_timer", "woken_by_poll", "handed_over"),
)


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
        clockwork: Clockwork,
    ) -> None:
        self._writer = writer
        self._lanes = lanes
        self._poll = poll.total_seconds()
        self._clockwork = clockwork
        self._clock = asyncio.get_running_loop().time
        self._asking = Asking(presence, tasks, lanes, self._clock)
        self._pulse_at = 0.0
        self._pulsed_at = 0.0
        self._tended_at = 0.0
        self._looks = 0
        self._declared = False
        self._takes = False
        self._woken = False
        self._poked: UUID | None = None
        self._finished = 0
        self._held_back = False
        self._calls = Calls(line, presence, writer, lambda: self.crew.claims() | self._handing.claims())
        self.crew: Crew
        self.watch = NOBODY
        self.alarm = Alarm(self._clock)
        self._handing = Handing(
            self._calls, presence, writer.gathering, lanes, self.alarm, self._start_handed, self._is_willing
        )
        self.stopping = False
        self.budget: int | None = None
        self.answered_at = monotonic()
        self.counts = dict.fromkeys(COUNTED, 0)

    @property
    def ears(self) -> Ears:
        """Whether pokes can be relied on."""
        return self._calls.ears

    @ears.setter
    def ears(self, ears: Ears) -> None:
        self._calls.ears = ears

    # What wakes it.

    def hear(self, notice: Notice) -> None:
        """Take a poke: a hint, which costs a query only if it may mean work for this process."""
        self.counts["notifications"] += 1
        match notice:
            case Poke(queue, seconds, position):
                if self._lanes.serves(queue):
                    if seconds > 0:
                        self.alarm.due_in(seconds)
                    else:
                        self.counts["woken_by_poke"] += 1
                        self._asking.horizon.lower(queue, position)
                        # Without a position it may be one that fell due before its commit, and is to be promoted first.
                        self._poked = position.id if position else None
                        self._look()
            case Handed(told):
                try:
                    self._handing.hear(told)
                except (ValueError, TypeError):
                    # Of another version: the job comes into line when its own lease is over.
                    self._look()
            case Look():
                self._tended_at = 0.0
                self.counts["woken_by_poke"] += 1
                self._asking.horizon.drop()
                self._look()
            case LookForCancelled():
                self.pulse_soon()
            case BreakerSteered(opened, facts):
                log_breaker(opened, facts)

    def pulse_soon(self) -> None:
        """Pulse now: a listener is back, and what was notified before is lost; or a job was cancelled."""
        self._pulse_at = 0.0
        self.alarm.ring()

    def ended(self) -> None:
        """An attempt is over."""
        self._finished += 1
        if self._held_back:
            self._lanes.look()
        self.alarm.ring()

    def listener_changed(self) -> None:
        """It was lost, came back, or found to be deaf: look; and a server that went may have been another one."""
        self._calls.listener_changed()
        self.pulse_soon()

    def doubt(self) -> None:
        """The database was lost: once it is back, see whether it and we agree on what we hold."""
        self._calls.doubt()

    def hand_back(self) -> None:
        """The worker's lease has lapsed: nothing that it was handed is started any more."""
        self._handing.give_back()

    def begin_anew(self) -> None:
        """The worker has a new id: nothing it knew of its standing holds any more."""
        self._declared = self._takes = False
        self._asking.begin_anew()
        self._calls.forget_doubts()
        self._look()
        self.pulse_soon()

    def _look(self) -> None:
        self._looks += 1
        self._woken = True
        self._lanes.look()
        self.alarm.ring()

    # What it does.

    async def round(self) -> bool:
        """Do what there is to do now; False when that was nothing."""
        now = self._clock()
        self.ears.check(now)
        self._mind_the_clock()
        self._mind_who_is_idle(now)
        if self._handing:
            await self._take_handed()
            return True
        if self.stopping and self._declared:
            # Nobody is to be poked in vain, and nothing to be handed to who gives it back.
            self._declared = self._takes = False
            await self._calls.wake()
        if self._calls.doubts:
            await self._calls.settle_doubts()
        # Last: whatever is settled next, with nothing awaited in between, has its notes written.
        await self._writer.write_notes()
        if endings := self._writer.gathering.take_endings():
            await self._writer.settle(endings)
            return True
        # One that is stopping takes nothing, but those that still run may have been cancelled.
        if now >= self._pulse_at and (not self.stopping or self.crew.running):
            await self._pulse(now)
            return True
        if self._declared and not self._takes and self._asking.takes(self.ears) and self._handing.room_for_more():
            # It sleeps, and has slots free again: it says that jobs may be handed to it.
            self._lanes.look()
        done = self._writer.gathering.take_done()
        limits = self._limits()
        if any(limits):
            await self._claim(limits, done, now)
        elif done:
            await self._writer.complete(done)
        else:
            return False
        return True

    async def _take_handed(self) -> None:
        await self._handing.confirm(self.crew)
        self.answered_at = monotonic()
        self._takes = self._takes and self._handing.room_for_more()
        # A job that is done in no time is settled at once.
        await asyncio.sleep(0)

    def _is_willing(self) -> bool:
        return not (self.stopping or self._asking.alone or self._asking.solitude.wanted)

    def _start_handed(self, job: Job) -> None:
        self.counts["handed_over"] += 1
        if self.watch.everything:
            self.watch.claimed([job])
        self.crew.take([job])

    async def sleep(self) -> None:
        """Sleep until something rings, falls due, or the pulse comes."""
        now = self._clock()
        until = now + 1.0 if self.stopping else self._pulse_at
        check_at = self.ears.check_at
        await self.alarm.sleep(
            min(until, self._asking.solitude.changes_at(now), until if check_at is None else check_at)
        )

    def _mind_the_clock(self) -> None:
        if self.alarm.came_due():
            self.counts["woken_by_timer"] += 1
            self._lanes.look()
            self._tended_at = 0.0
            if not any(self._limits()):
                # With no slot free, the pulse promotes what is due and pokes who has one.
                self._pulse_at = 0.0

    def _mind_who_is_idle(self, now: float) -> None:
        """A poke that came when the last slot had just been taken was spent on the wrong one: the pulse pokes others.

        Who pokes sees as asleep whoever has not yet committed its claim. Not too often: some pokes go to everyone.
        """
        if self._woken and not self.stopping and all(lane.free <= 0 for lane in self._lanes.lanes):
            self._woken = False
            self._pulse_at = min(self._pulse_at, max(now, self._pulsed_at + TEND_EVERY))

    def _limits(self) -> list[int]:
        return self._asking.none if self.stopping else self._asking.limits(self.crew, self.budget)

    def _request(self, limits: Sequence[int], now: float, settles: bool) -> ClaimRequest:
        # A poke has woken an idle worker from a sleep that is declared, and nothing has asked for a thorough look:
        # start what came, and see to everything else afterwards.
        calm = self._declared and self._tended_at > 0.0 and self.crew.idle and not settles
        unbounded = not self._asking.horizon.bounds_anything and self._asking.turn(self.crew) != "alone"
        brief = self._poked is not None and calm and unbounded
        tend = not brief and now - self._tended_at >= TEND_EVERY
        if tend:
            self._tended_at = now
        return self._asking.claim(
            limits, now, self.crew, self.ears, tend=tend, brief=brief, pass_on=self._woken, poked=self._poked
        )

    async def _claim(self, limits: Sequence[int], done: list[Completion], now: float) -> None:
        request = self._request(limits, now, bool(done))
        looks = self._looks
        self._woken, self._poked = False, None
        self.counts["claims"] += 1
        claimed = await self._calls.claim(request, done)
        # One that settled something was not in vain.
        self.counts["empty_claims"] += not (claimed.jobs or done)
        self._take(claimed, request, looks)
        if request.brief and claimed.jobs:
            # A job that is done in no time is settled by the claim that follows.
            await asyncio.sleep(0)
        await self._fire(claimed)

    def _take(self, claimed: Claimed, request: ClaimRequest, looks: int) -> None:
        report, jobs = claimed.report, claimed.jobs
        self.answered_at = monotonic()
        if self.budget is not None:
            self.budget -= len(jobs)
        self._writer.note_refused(report.refused)
        self._held_back = report.held_back
        self._asking.appetite.learn(self._finished)
        finished, self._finished = self._finished, 0
        if jobs and self.watch.everything:
            self.watch.claimed(jobs)
        if self.stopping:
            for job in jobs:
                self._writer.gathering.add(Ending(job.id, job.epoch, "released", retry_in=timedelta(0)))
            return
        if request.brief:
            self._take_briefly(claimed, request, self._looks != looks)
            return
        self._asking.solitude.wanted = report.suspects
        self._asking.alone = request.alone and bool(jobs)
        if request.alone:
            self._asking.solitude.found(bool(jobs), self._clock())
            self.crew.take(jobs, alone=self._over_alone)
            if not jobs:
                self._lanes.look()
            return
        # Never asleep on a bounded scan: what was given back lies before its start. Nor when something came meanwhile,
        # or when a slot came free for what is not held ready.
        again = request.horizon is not None or self._looks != looks or (report.held_back and finished > 0)
        short = self._asking.advance(jobs, request, again)
        self.crew.take(jobs)
        if not short:
            self._declared = False
            return
        self._asking.horizon.drop()
        self.alarm.table_says(report.due_in)
        self._declared = self._declared or request.sleeps is not None
        self._takes = self._asking.offers_slots(jobs, request)

    def _take_briefly(self, claimed: Claimed, request: ClaimRequest, again: bool) -> None:
        """Who took something claims again, to see what else there is; who did not sleeps on, as it had declared."""
        for lane, limit in zip(self._lanes.lanes, request.limits, strict=True):
            if limit > 0:
                lane.hungry = again or bool(claimed.jobs)
        self._declared = sum(request.limits) > len(claimed.jobs)
        self.crew.take(claimed.jobs)
        # There may be more than the one that was named, and than there are slots: the next claim passes it on.
        self._woken = self._woken or (request.poked is not None and bool(claimed.jobs))
        if claimed.report.due_in is not None:
            self.alarm.due_in(claimed.report.due_in)

    def _over_alone(self) -> None:
        self._asking.alone = False
        self._look()

    async def _pulse(self, now: float) -> None:
        if self.budget is None:
            self._lanes.look()
        limits = self._limits() if self._asking.turn(self.crew) == "work" else self._asking.none
        asks = any(limits)
        request = self._asking.pulse(limits, self.ears)
        # Set before it is sent: what asks for another pulse meanwhile must not be overwritten.
        self._pulse_at = now + self._interval()
        self._tended_at = self._pulsed_at = now
        looks = self._looks
        self.counts["pulses"] += 1
        self.counts["woken_by_poll"] += 1
        try:
            if self._declared and not self.ears.hears:
                await self._calls.wake()
                self._declared = False
            claimed = await self._calls.pulse(request, self._lanes.every)
        # Whatever it was, the pulse has not gone out.
        except Exception:
            self._pulse_at = 0.0
            raise
        self.answered_at = monotonic()
        self.counts["poll_scanned"] += len(claimed.jobs)
        self.crew.cancel(claimed.report.cancelled)
        if asks:
            self._take(claimed, request, looks)
        else:
            self.alarm.table_says(claimed.report.due_in)
        await self._fire(claimed)

    async def _fire(self, claimed: Claimed) -> None:
        """Fire the schedules that are due; what they make, and when they are next due, is found by looking again."""
        if claimed.report.schedules and not self.stopping:
            look, held_up = await self._clockwork.fire(claimed.report.schedules)
            if look:
                self._tended_at = 0.0
                self._look()
            if held_up:
                self.alarm.due_in(HELD_UP)

    def _interval(self) -> float:
        trusted = self.ears.hears or not self.ears.listens
        return (self._poll if trusted else min(self._poll, DEGRADED_POLL)) * random.uniform(0.9, 1.0)
