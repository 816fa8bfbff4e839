"""Handing: jobs that began as this worker's, in the commits that enqueued them, are confirmed and started.

The confirmation goes out before the handler has the loop, and is not waited for: a handler that then blocks the loop,
or brings the process down, does so with its job under the worker's lease, as any other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from wakeful.claim.lanes import Lanes
from wakeful.settle.gather import Gathering
from wakeful.values.job import Job, handed_job
from wakeful.values.settlement import Ending
from wakeful.wake.alarm import Alarm
from wakeful.worker.calls import Acceptance, Calls
from wakeful.worker.crew import Crew
from wakeful.worker.presence import Presence

# Whoever does not confirm within five seconds loses the job. One that is older than this starts after the answer.
FRESH = 1.0
# Someone holds the job's row: most likely its own handler, in a transaction.
TRY_AGAIN = 0.5


@dataclass(slots=True)
class _Handed:
    job: Job
    started: bool = False
    # Its confirmation, under way already.
    sent: Acceptance | None = None


class Handing:
    """Jobs that were handed over and are not confirmed yet.

    `start` puts one to work, `willing` tells whether the worker begins anything now.
    """

    def __init__(
        self,
        calls: Calls,
        presence: Presence,
        gathering: Gathering,
        lanes: Lanes,
        alarm: Alarm,
        start: Callable[[Job], None],
        willing: Callable[[], bool],
    ) -> None:
        self._calls = calls
        self._presence = presence
        self._gathering = gathering
        self._lanes = lanes
        self._alarm = alarm
        self._start = start
        self._willing = willing
        self._unconfirmed: deque[_Handed] = deque()
        self._locked: list[_Handed] = []

    def __len__(self) -> int:
        return len(self._unconfirmed)

    def hear(self, told: Sequence[object]) -> None:
        """Take a job, and start it at once if the worker sleeps. ValueError if it cannot be read."""
        job = handed_job(told, self._presence.worker_id)
        # What was given back, because it was held in our name and unheard of, is not ours any more.
        if self._calls.given_back and (job.id, job.epoch) in self._calls.given_back:
            return
        handed = _Handed(job)
        if self._alarm.wakes_at is not None and not self._unconfirmed and self._can_run(job) and self._is_fresh(job):
            acceptance = self._acceptance(handed)
            if self._calls.send_now(acceptance):
                handed.sent = acceptance
                self._begin(handed)
        self._unconfirmed.append(handed)
        self._alarm.ring()

    def claims(self) -> set[tuple[UUID, int]]:
        """The jobs that are not confirmed, by id and epoch."""
        return {(handed.job.id, handed.job.epoch) for handed in (*self._unconfirmed, *self._locked)}

    def give_back(self) -> None:
        """The worker's lease has lapsed: what was not started is given back, the rest is others' now."""
        for handed in self._unconfirmed:
            if not handed.started:
                self._release(handed.job)
        self._unconfirmed.clear()
        self._locked.clear()

    def room_for_more(self, job: Job | None = None) -> bool:
        """Whether every lane has two free slots, with this job in one: what is in line keeps a slot."""
        lane = None if job is None else self._lanes.of(job.queue)
        return all(other.free - (other is lane) > 1 for other in self._lanes.lanes)

    async def confirm(self, crew: Crew) -> None:
        """Confirm what was handed over, and start it. What cannot be run now is given back, uncharged."""
        while self._unconfirmed:
            handed = self._unconfirmed[0]
            if handed.started or self._can_run(handed.job):
                await self._confirm(handed, crew)
            else:
                self._release(handed.job)
            # Left in its place until then: what was not answered is confirmed again.
            if self._unconfirmed and self._unconfirmed[0] is handed:
                self._unconfirmed.popleft()

    async def _confirm(self, handed: _Handed, crew: Crew) -> None:
        sent, handed.sent = handed.sent, None
        match await self._calls.accept(sent or self._acceptance(handed)):
            case None:
                self._begin(handed)
            case "locked":
                self._locked.append(handed)
                asyncio.get_running_loop().call_later(TRY_AGAIN, self._unlock)
            case _:
                crew.lose(handed.job)

    def _acceptance(self, handed: _Handed) -> Acceptance:
        enough = not self.room_for_more(None if handed.started else handed.job)
        return self._calls.acceptance(handed.job, enough=enough)

    def _can_run(self, job: Job) -> bool:
        return self._lanes.of(job.queue).free > 0 and self._willing()

    def _is_fresh(self, job: Job) -> bool:
        return not self._calls.doubts and self._calls.seconds_since(job.started_wire) < FRESH

    def _begin(self, handed: _Handed) -> None:
        if not handed.started:
            handed.started = True
            self._start(handed.job)

    def _release(self, job: Job) -> None:
        self._gathering.add(Ending(job.id, job.epoch, "released", retry_in=timedelta(0)))

    def _unlock(self) -> None:
        self._unconfirmed.extend(self._locked)
        self._locked.clear()
        self._alarm.ring()
