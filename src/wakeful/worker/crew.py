"""The crew: jobs in their slots, and those held ready behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from uuid import UUID

from wakeful.claim.lanes import Lane, Lanes
from wakeful.run.attempt import Attempt, Why, attempt
from wakeful.run.handler import Handler
from wakeful.values.current import CurrentJob, current_job
from wakeful.values.job import Job
from wakeful.values.outcome import Outcome


# A timeout is kept to within this.
CHECK_EVERY = 0.1


class Crew:
    """Runs jobs, each in a task of its own, as slots are free. `ended` is told how each attempt went."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        lanes: Lanes,
        call: Callable[[Attempt], Awaitable[object]],
        ended: Callable[[Attempt, Outcome], None],
    ) -> None:
        self._handlers = handlers
        self._lanes = lanes
        self._call = call
        self._ended = ended
        self._check: asyncio.TimerHandle | None = None
        self.running: dict[UUID, Attempt] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing is held ready."""
        return not self.running and not any(lane.waiting for lane in self._lanes.lanes)

    def take(self, jobs: Iterable[Job]) -> None:
        """Start what there is a slot for, hold the rest ready."""
        loop = asyncio.get_running_loop()
        for job in jobs:
            lane = self._lanes.of(job.queue)
            if lane.running < lane.slots:
                self._start(job, lane, loop)
            else:
                lane.waiting.append(job)

    def hand_back(self) -> list[Job]:
        """The jobs that were held ready and are not started any more."""
        unstarted = [job for lane in self._lanes.lanes for job in lane.waiting]
        for lane in self._lanes.lanes:
            lane.waiting.clear()
        return unstarted

    def stop(self, ids: Iterable[UUID], why: Why) -> None:
        """Ask these jobs' handlers to end."""
        for id in list(ids):
            if id in self.running:
                self.running[id].stop(why)

    def _stop_overdue(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for running in list(self.running.values()):
            if running.deadline <= now:
                running.stop("timeout")
        self._check = loop.call_later(CHECK_EVERY, self._stop_overdue) if self.running else None

    def _start(self, job: Job, lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        running = Attempt(job, self._handlers[job.task], loop.time())
        self.running[job.id] = running
        lane.running += 1
        task = loop.create_task(self._work(running, lane))
        running.begin(task)
        if self._check is None:
            self._check = loop.call_later(CHECK_EVERY, self._stop_overdue)

    async def _work(self, running: Attempt, lane: Lane) -> None:
        # Each task has a context of its own: what a handler sets there, no other job sees.
        current_job.set(CurrentJob(running.job.id, running.job.correlation_id))
        outcome = await attempt(running, self._call)
        running.end()
        # A claim that was lost meanwhile may have come back to this process under a new epoch.
        if self.running.get(running.job.id) is running:
            del self.running[running.job.id]
        if running.leftover is not None:
            running.leftover.add_done_callback(lambda _: self._free(lane))
        else:
            self._free(lane)
        self._ended(running, outcome)

    def _free(self, lane: Lane) -> None:
        lane.running -= 1
        if lane.waiting:
            self._start(lane.waiting.popleft(), lane, asyncio.get_running_loop())
