"""The crew: jobs in their slots, and those held ready behind them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from uuid import UUID

from wakeful.claim.lanes import Lane, Lanes
from wakeful.observe.observer import Observer, surrounded
from wakeful.run.attempt import Attempt, Why, attempt, interpret_stop, read_error
from wakeful.run.batch import attempt_batch
from wakeful.run.drive import drive
from wakeful.run.handler import Handler
from wakeful.run.places import Places
from wakeful.values.job import Job
from wakeful.values.outcome import Cancelled, Outcome

# A timeout is kept to within this.
CHECK_EVERY = 0.1
# How long a handler whose time is over may take to clean up, before its job is settled without it.
GRACE = 1.0
# Jobs that wait for nothing run one after another for so long, before the loop sees to everything else.
SLICE = 0.002


class Crew:
    """Runs jobs as slots are free. Jobs that wait for nothing run one after another in one task; one that does has the
    task for itself from then on, and the next job gets another.

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
        # Those that are full, or have waited as long as they should: the next slot is theirs.
        self._ripe: set[tuple[str, int]] = set()
        # By the job's id, in bytes.
        self.running: dict[bytes, Attempt] = {}
        self.arounds: Sequence[Observer] = ()
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
            else:
                lane.waiting.append(job)
        for lane in self._lanes.lanes:
            self._staff(lane)

    def hand_back(self) -> list[Job]:
        """The jobs that were held ready and are not started any more."""
        unstarted = self._held()
        self._gathering.clear()
        self._ripe.clear()
        for lane in self._lanes.lanes:
            lane.waiting.clear()
            lane.gathering = 0
        return unstarted

    def stop(self, keys: Iterable[bytes], why: Why) -> None:
        """Ask the handlers of these jobs, by their ids in bytes, to end."""
        for key in list(keys):
            if key in self.running:
                self.running[key].stop(why)

    def cancel(self, ids: Collection[UUID]) -> None:
        """These jobs are cancelled: the handlers of those that run are asked to end, the others do not start."""
        self.stop((id.bytes for id in ids), "cancelled")
        for job in [job for job in self._held() if job.id in ids] if ids else []:
            self._withdraw(job)
            unstarted = Attempt(job, self._handlers[job.task], asyncio.get_running_loop().time())
            self._ended(unstarted, Cancelled(None))

    def lose(self, job: Job) -> None:
        """This job is not the worker's any more: its handler is told, if it has one."""
        if job in self._held():
            self._withdraw(job)
        elif (running := self.running.get(job.key)) is not None and running.job.epoch == job.epoch:
            running.stop("lost")

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

    def _staff(self, lane: Lane) -> None:
        """If a job waits and a slot is free, someone comes to take it."""
        if lane.waiting and lane.running < lane.slots:
            lane.running += 1
            asyncio.get_running_loop().create_task(self._hold_slot(lane))

    async def _hold_slot(self, lane: Lane) -> None:
        """Run what waits, until one of the jobs has waited for something, or others should have their turn."""
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        assert me is not None
        until = loop.time() + SLICE
        running: Attempt | None = None
        while lane.waiting:
            running = self._attempt(lane.waiting.popleft(), loop.time())
            # A context for each: what a handler sets there, no other job sees.
            work = self._surrounded(running) if self.arounds else attempt(running, self._places.call)
            try:
                outcome = await drive(work, copy_context(), partial(self._suspends, running, lane, me))
            except Exception as error:  # An observer's context, or we, went wrong: neither job nor slot hangs for that.
                outcome = read_error(error, running)
            self._end(running, outcome)
            if running.suspended or loop.time() >= until:
                break
        self._let_go(running, lane)

    async def _surrounded(self, running: Attempt) -> Outcome:
        with surrounded(self.arounds, (running.job,)) as tell:
            outcome = await attempt(running, self._places.call)
            tell((outcome,))
        return outcome

    def _let_go(self, running: Attempt | None, lane: Lane) -> None:
        if running is not None and running.leftover is not None:
            running.leftover.add_done_callback(lambda _: self._free(lane))
        else:
            self._free(lane)

    def _attempt(self, job: Job, now: float) -> Attempt:
        if self.running and job.key in self.running:
            # The claim under which it still runs was lost, and has come back to this very process.
            self.running[job.key].stop("lost")
        return Attempt(job, self._handlers[job.task], now)

    def _suspends(self, running: Attempt, lane: Lane, task: asyncio.Task[None]) -> None:
        """It waits for something, and has the task for itself: others go on meanwhile, and it can be stopped."""
        self._note(running, task)
        self._staff(lane)

    def _note(self, running: Attempt, task: asyncio.Task[None]) -> None:
        running.begin(task)
        self.running[running.job.key] = running
        if self._check is None:
            self._check = asyncio.get_running_loop().call_later(CHECK_EVERY, self._stop_overdue)

    def _end(self, running: Attempt, outcome: Outcome) -> None:
        if not running.suspended:
            self._ended(running, outcome)
        # A claim that was lost meanwhile may have come back to this process under a new epoch.
        elif self.running.get(running.job.key) is running:
            del self.running[running.job.key]
            self._ended(running, outcome)
        running.end()
        if self._alone is not None and not self.running:
            over, self._alone = self._alone, None
            over()

    def _abandon(self, running: Attempt) -> None:
        """Its slot stays taken until it has ended."""
        running.end()
        del self.running[running.job.key]
        self._ended(running, interpret_stop(running))

    def _free(self, lane: Lane) -> None:
        lane.running -= 1
        if self._ripe and self._start_ripe(lane):
            return
        if lane.waiting:
            self._staff(lane)
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

    def _withdraw(self, job: Job) -> None:
        lane = self._lanes.of(job.queue)
        if job in lane.waiting:
            lane.waiting.remove(job)
        else:
            self._gathering[self._key(job, lane)].remove(job)
            lane.gathering -= 1

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
        if handler.batch is not None and len(gathered) >= handler.batch:
            self._start_or_ripen(key, lane)

    def _key(self, job: Job, lane: Lane) -> tuple[str, int]:
        return job.task, self._lanes.lanes.index(lane)

    def _ripen(self, key: tuple[str, int], first: Job) -> None:
        """The oldest of a batch has waited as long as it should."""
        gathered = self._gathering.get(key)
        lane = self._lanes.lanes[key[1]]
        if gathered and gathered[0] is first:
            self._start_or_ripen(key, lane)

    def _start_or_ripen(self, key: tuple[str, int], lane: Lane) -> None:
        if lane.running < lane.slots:
            self._start_batch(key, lane, asyncio.get_running_loop())
        else:
            self._ripe.add(key)

    def _start_ripe(self, lane: Lane) -> bool:
        index = self._lanes.lanes.index(lane)
        keys = [key for key in self._ripe if key[1] == index and self._gathering.get(key)]
        if keys:
            oldest = min(keys, key=lambda key: self._gathering[key][0].started_at)
            self._start_batch(oldest, lane, asyncio.get_running_loop())
        return bool(keys)

    def _start_gathered(self, lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        """A slot came free: the batch that has waited longest for one takes it."""
        index = self._lanes.lanes.index(lane)
        keys = [key for key, gathered in self._gathering.items() if gathered and key[1] == index]
        if keys:
            self._start_batch(min(keys, key=lambda key: self._gathering[key][0].started_at), lane, loop)

    def _start_batch(self, key: tuple[str, int], lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        self._ripe.discard(key)
        gathered = self._gathering[key]
        size = min(len(gathered), self._handlers[key[0]].batch or 1)
        jobs = [gathered.popleft() for _ in range(size)]
        lane.gathering -= size
        lane.running += 1
        batch = [self._attempt(job, loop.time()) for job in jobs]
        task = loop.create_task(self._work_batch(batch))
        task.add_done_callback(lambda _: self._batch_ended(batch, lane))
        for running in batch:
            running.shared = True
            self._note(running, task)
        if gathered:
            linger = self._handlers[key[0]].linger.total_seconds()
            loop.call_later(linger, self._ripen, key, gathered[0])

    async def _work_batch(self, batch: Sequence[Attempt]) -> None:
        try:
            with surrounded(self.arounds, [running.job for running in batch]) as tell:
                outcomes = await attempt_batch(batch, self._places.call_batch)
                tell(outcomes)
        except Exception as error:  # As in a slot.
            outcomes = [read_error(error, running) for running in batch]
        for running, outcome in zip(batch, outcomes, strict=True):
            self._end(running, outcome)

    def _batch_ended(self, batch: Sequence[Attempt], lane: Lane) -> None:
        for running in batch:
            # Stopped before its first step.
            if self.running.get(running.job.key) is running:
                self._end(running, interpret_stop(running))
        self._let_go(next((running for running in batch if running.leftover is not None), None), lane)
