"""The loop's calls to the database, and what is owed when an answer to one of them was lost."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import TypeAlias
from uuid import UUID

from wakeful.database.line import AsyncLine
from wakeful.statements import claim as claiming
from wakeful.statements import fleet, loops
from wakeful.statements import settle as settling
from wakeful.statements.claim import Claimed, ClaimRequest
from wakeful.statements.statement import Statement
from wakeful.values.errors import WakefulError
from wakeful.values.job import Job
from wakeful.values.settlement import Completion, Ending, Reason, Refusal
from wakeful.worker.ears import Ears
from wakeful.worker.presence import Presence
from wakeful.worker.writer import Writer

log = logging.getLogger("wakeful.worker")

CANARY_WITHIN = 4.0

Acceptance: TypeAlias = Statement[list[Refusal]]


class Calls:
    """Claims, turns and pulses. `known` tells which claims the crew has, by id and epoch."""

    def __init__(
        self, line: AsyncLine, presence: Presence, writer: Writer, known: Callable[[], set[tuple[UUID, int]]]
    ) -> None:
        self._line = line
        self._presence = presence
        self._writer = writer
        self._known = known
        self._clock = asyncio.get_running_loop().time
        self._canary = random.getrandbits(31)
        self._doubts_until = 0.0
        self._took = self._ever_took = False
        # When the database's clock, in microseconds, was known last, and when that was asked for.
        self._clock_told: tuple[int, float] | None = None
        self.doubts = False
        self.given_back: set[tuple[UUID, int]] = set()
        self.ears = Ears()

    async def claim(self, request: ClaimRequest, done: list[Completion]) -> Claimed:
        """Complete what is done, and take the next."""
        if not done:
            return await self._taken(claiming.claim(request))
        if request.alone:
            await self._writer.complete(done)
            return await self._taken(claiming.claim(request))
        try:
            return await self._taken(claiming.turn(request, done))
        except (WakefulError, asyncio.CancelledError):
            self._writer.gathering.put_back(done)
            raise
        # Whatever it was that one statement could not do, two will tell apart.
        except Exception:
            await self._writer.complete(done)
            return await self._taken(claiming.claim(request))

    async def pulse(self, request: ClaimRequest, every_lane: int | None) -> Claimed:
        """Renew the lease, call to the own listener, take from the start of the line."""
        lease, sent_at = self._presence.lease, time.monotonic()
        canary = self._canary if self.ears.listens else None
        overdue_at = None
        self.ears.expect_canary()
        try:
            claimed = await self._taken(claiming.pulse(request, lease.length, canary, every_lane))
            overdue_at = self._clock() + CANARY_WITHIN
        finally:
            self.ears.canary_sent(overdue_at)
        lease.renewed(sent_at)
        # Behind a pooler a standby may have taken the primary's place with nobody told. Who hears has a connection of
        # its own that would have been lost.
        hidden = self._took and not self.ears.hears
        self.doubts = self.doubts or hidden or self._clock() < self._doubts_until
        self._took = False
        return claimed

    def acceptance(self, job: Job, *, enough: bool) -> Acceptance:
        """What confirms a job that was handed over."""
        return settling.accept(self._presence.worker_id, job.id, job.epoch, enough=enough)

    def send_now(self, acceptance: Acceptance) -> bool:
        """Send it, if that takes no waiting; `accept` is to be called next. False: nothing was done."""
        return self._line.send_now(acceptance)

    async def accept(self, acceptance: Acceptance) -> Reason | None:
        """Confirm a job, or find out why that is refused: it is others' (stale), or someone holds its row (locked)."""
        refusals = await self._line.run(acceptance)
        self._took = self._ever_took = True
        # Settled: its handler was quicker, in a transaction of its own.
        return next((refusal.reason for refusal in refusals if refusal.reason != "settled"), None)

    def seconds_since(self, started_wire: bytes) -> float:
        """How long ago that was on the database's clock, at the most, as far as is known from here."""
        if self._clock_told is None:
            return inf
        told, asked_at = self._clock_told
        return (told - int.from_bytes(started_wire, "big", signed=True)) / 1e6 + self._clock() - asked_at

    async def wake(self) -> None:
        """Ask for no more pokes: they go to a few sleepers only, and one that cannot hear must not be among them."""
        await self._line.run(loops.wake(self._presence.worker_id))

    async def settle_doubts(self) -> None:
        """Give back what is held in our name, and nobody here knows of.

        A claim whose answer was lost; or one whose settlement was acknowledged, and forgotten by a failover.
        """
        known = self._known() | self._writer.gathering.claims()
        held = await self._line.run(fleet.held(self._presence.worker_id))
        # What is known before and gone now has settled itself meanwhile, in its handler's transaction.
        known |= self._known() | self._writer.gathering.claims()
        for id, epoch in held:
            if (id, epoch) not in known:
                log.warning(
                    "claim_given_back: job %s was held in this worker's name, and it had not heard of it.",
                    id,
                    extra={"event": "claim_given_back", "job_id": str(id)},
                )
                self._writer.gathering.add(Ending(id, epoch, "released", retry_in=timedelta(0)))
                self.given_back.add((id, epoch))
        self.doubts = False

    def listener_changed(self) -> None:
        """Behind a pooler the listener's may be the only connection that a failover has cut."""
        self.doubts = self.doubts or self._ever_took

    def doubt(self) -> None:
        """The database was lost: whichever comes back may know more of our claims than we do, even later."""
        # A server that is slow to notice that we are gone may still take what we sent.
        self._doubts_until = self._clock() + 2 * self._presence.lease.length.total_seconds()
        self.doubts = True

    def forget_doubts(self) -> None:
        """What was held under an id that has lapsed is rescued."""
        self.doubts = self._took = False
        self._doubts_until = 0.0
        self.given_back.clear()

    async def _taken(self, statement: Statement[Claimed]) -> Claimed:
        sent_at = self._clock()
        claimed = await self._line.run(statement)
        self._took = self._took or bool(claimed.jobs)
        self._ever_took = self._ever_took or self._took
        if (began := claimed.report.began_wire) is not None:
            self._clock_told = (int.from_bytes(began, "big", signed=True), sent_at)
        if claimed.report.due_in is None:
            return claimed
        # Told from the beginning of the call: the commit and the way back are not to make timers late.
        due_in = max(0.0, claimed.report.due_in - (self._clock() - sent_at))
        return replace(claimed, report=replace(claimed.report, due_in=due_in))
