"""The crew: jobs in their slots, and those held ready behind them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from uuid import UUID

from wakeful.claim.lanes import Lane, Lanes
from wakeful.run.attempt import Attempt, Why, attempt, interpret_stop
from wakeful.run.batch import attempt_batch
from wakeful.run.handler import Handler
from wakeful.run.places import Places
from wakeful.values.current import CurrentJob, current_job
from wakeful.values.job import Job
from wakeful.values.outcome import Cancelled, Outcome

# A timeout is kept to within this.
CHECK_EVERY = 0.1
# How long a handler whose time is over may take to clean up, before its job is settled without it.
GRACE = 1.0


class Crew:
    """Runs jobs, each in a task of its own, as slots are free.

    `ended` is told how each attempt went, `freed` that a slot came free, which may be later.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        lanes: Lanes,
        places: Places,
        ended: Callable[[Attempt, Outcome], None],
        freed: Callable[[], None],
    ) -> None:
        self._handlers = handlers
        self._lanes = lanes
        self._places = places
        self._ended = ended
        self._freed = freed
        self._check: asyncio.TimerHandle | None = None
        self._alone: Callable[[], None] | None = None
        self._gathering: dict[tuple[str, int], deque[Job]] = {}
        self.running: dict[UUID, Attempt] = {}
        self.largest_batch = max((handler.batch or 0 for handler in handlers.values()), default=0)

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing is held ready."""
        return not self.running and not any(lane.waiting or lane.gathering for lane in self._lanes.lanes)

    def take(self, jobs: Iterable[Job], alone: Callable[[], None] | None = None) -> None:
        """Start what there is a slot for, hold the rest ready. `alone` is called when nothing runs any more."""
        self._alone = alone
        loop = asyncio.get_running_loop()
        for job in jobs:
            lane = self._lanes.of(job.queue)
            if self._handlers[job.task].batch is not None:
                self._gather(job, lane, loop)
            elif lane.running < lane.slots:
                self._start(job, lane, loop)
            else:
                lane.waiting.append(job)

    def hand_back(self) -> list[Job]:
        """The jobs that were held ready and are not started any more."""
        unstarted = self._held()
        self._gathering.clear()
        for lane in self._lanes.lanes:
            lane.waiting.clear()
            lane.gathering = 0
        return unstarted

    def stop(self, ids: Iterable[UUID], why: Why) -> None:
        """Ask these jobs' handlers to end."""
        for id in list(ids):
            if id in self.running:
                self.running[id].stop(why)

    def cancel(self, ids: Collection[UUID]) -> None:
        """These jobs are cancelled: the handlers of those that run are asked to end, the others do not start."""
        self.stop(ids, "cancelled")
        withdrawn = [job for job in self._held() if job.id in ids] if ids else []
        for job in withdrawn:
            lane = self._lanes.of(job.queue)
            if job in lane.waiting:
                lane.waiting.remove(job)
            else:
                self._gathering[self._key(job, lane)].remove(job)
                lane.gathering -= 1
            self._ended(Attempt(job, self._handlers[job.task], 0.0), Cancelled(None))

    async def end(self, seconds: float) -> None:
        """Ask all handlers to end, and let go of those that take longer than this."""
        self.stop(self.running, "shutdown")
        if tasks := {running.task for running in self.running.values() if running.task is not None}:
            await asyncio.wait(tasks, timeout=seconds)
        self.abandon()

    def abandon(self) -> None:
        """Let go of the attempts that would not end: their jobs are settled as what they were stopped for."""
        for running in list(self.running.values()):
            self._abandon(running)

    def claims(self) -> set[tuple[UUID, int]]:
        """The jobs that run or are held ready, by id and epoch."""
        return {(job.id, job.epoch) for job in (*self._held(), *(run.job for run in self.running.values()))}

    def _start(self, job: Job, lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        running = self._attempt(job, loop)
        lane.running += 1
        running.begin(loop.create_task(self._work(running, lane)))

    def _attempt(self, job: Job, loop: asyncio.AbstractEventLoop) -> Attempt:
        running = Attempt(job, self._handlers[job.task], loop.time())
        if job.id in self.running:
            # The claim under which it still runs was lost, and has come back to this very process.
            self.running[job.id].stop("lost")
        self.running[job.id] = running
        if self._check is None:
            self._check = loop.call_later(CHECK_EVERY, self._stop_overdue)
        return running

    async def _work(self, running: Attempt, lane: Lane) -> None:
        # Each task has a context of its own: what a handler sets there, no other job sees.
        current_job.set(CurrentJob(running.job.id, running.job.correlation_id))
        outcome = await attempt(running, self._places.call)
        self._end(running, outcome)
        self._let_go(running, lane)

    def _end(self, running: Attempt, outcome: Outcome) -> None:
        running.end()
        # A claim that was lost meanwhile may have come back to this process under a new epoch.
        if self.running.get(running.job.id) is running:
            del self.running[running.job.id]
            self._ended(running, outcome)
        if self._alone is not None and not self.running:
            over, self._alone = self._alone, None
            over()

    def _abandon(self, running: Attempt) -> None:
        """Its slot stays taken until it has ended."""
        running.end()
        del self.running[running.job.id]
        self._ended(running, interpret_stop(running))

    def _let_go(self, running: Attempt, lane: Lane) -> None:
        if running.leftover is not None:
            running.leftover.add_done_callback(lambda _: self._free(lane))
        else:
            self._free(lane)

    def _free(self, lane: Lane) -> None:
        lane.running -= 1
        if lane.waiting:
            self._start(lane.waiting.popleft(), lane, asyncio.get_running_loop())
        elif lane.gathering:
            self._start_gathered(lane, asyncio.get_running_loop())
        else:
            self._freed()

    def _stop_overdue(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for running in list(self.running.values()):
            if running.deadline + GRACE <= now:
                self._abandon(running)
            elif running.deadline <= now:
                running.stop("timeout")
        self._check = loop.call_later(CHECK_EVERY, self._stop_overdue) if self.running else None

    def _held(self) -> list[Job]:
        held = [job for lane in self._lanes.lanes for job in lane.waiting]
        return held + [job for gathered in self._gathering.values() for job in gathered]

    # Batches.

    def _gather(self, job: Job, lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        handler = self._handlers[job.task]
        key = self._key(job, lane)
        gathered = self._gathering.setdefault(key, deque())
        gathered.append(job)
        lane.gathering += 1
        if len(gathered) == 1:
            loop.call_later(handler.linger.total_seconds(), self._ripen, key, job)
        if handler.batch is not None and len(gathered) >= handler.batch and lane.running < lane.slots:
            self._start_batch(key, lane, loop)

    def _key(self, job: Job, lane: Lane) -> tuple[str, int]:
        return job.task, self._lanes.lanes.index(lane)

    def _ripen(self, key: tuple[str, int], first: Job) -> None:
        """The oldest of a batch has waited as long as it should."""
        gathered = self._gathering.get(key)
        lane = self._lanes.lanes[key[1]]
        if gathered and gathered[0] is first and lane.running < lane.slots:
            self._start_batch(key, lane, asyncio.get_running_loop())

    def _start_gathered(self, lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        """A slot came free: the batch that has waited longest for one takes it."""
        index = self._lanes.lanes.index(lane)
        keys = [key for key, gathered in self._gathering.items() if gathered and key[1] == index]
        if keys:
            self._start_batch(min(keys, key=lambda key: self._gathering[key][0].started_at), lane, loop)

    def _start_batch(self, key: tuple[str, int], lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        gathered = self._gathering[key]
        size = min(len(gathered), self._handlers[key[0]].batch or 1)
        jobs = [gathered.popleft() for _ in range(size)]
        lane.gathering -= size
        lane.running += 1
        batch = [self._attempt(job, loop) for job in jobs]
        task = loop.create_task(self._work_batch(batch, lane))
        for running in batch:
            running.shared = True
            running.begin(task)
        if gathered:
            linger = self._handlers[key[0]].linger.total_seconds()
            loop.call_later(linger, self._ripen, key, gathered[0])

    async def _work_batch(self, batch: Sequence[Attempt], lane: Lane) -> None:
        outcomes = await attempt_batch(batch, self._places.call_batch)
        for running, outcome in zip(batch, outcomes, strict=True):
            self._end(running, outcome)
        self._let_go(batch[0], lane)
