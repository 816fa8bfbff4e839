"""Lanes: which queues share which slots, so that a slow job in one never holds up another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wakeful import config
from wakeful.values.job import Job


@dataclass(slots=True)
class Lane:
    """Queues that share `slots`: how many are taken, how many jobs are gathering for a batch, which ones wait.

    `hungry`: as far as is known, there may be jobs to take.
    """

    slots: int
    queues: list[str]
    every_queue: bool = False
    hungry: bool = True
    running: int = 0
    gathering: int = 0
    waiting: deque[Job] = field(default_factory=deque)

    def room(self, extra: int, batch: int = 0) -> int:
        """How many jobs to ask for, when `extra` are to be held ready behind the busy slots.

        While a batch gathers, so many more are asked for. Not before: they may be other jobs, and be held up here.
        """
        more = max(extra, batch) if self.gathering else extra
        return max(0, self.free + more)

    @property
    def free(self) -> int:
        """How many slots are free; below zero: so many jobs are held ready behind the busy ones."""
        return self.slots - self.running - self.gathering - len(self.waiting)


@dataclass(slots=True)
class Lanes:
    """All lanes of a process, and the lane of each queue."""

    lanes: list[Lane]
    _of: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._of = {queue: index for index, lane in enumerate(self.lanes) for queue in lane.queues}

    @property
    def slots(self) -> int:
        """How many jobs can run at once."""
        return sum(lane.slots for lane in self.lanes)

    @property
    def every(self) -> int | None:
        """The number (from 1) of the lane that serves all queues without one of their own."""
        return next((index + 1 for index, lane in enumerate(self.lanes) if lane.every_queue), None)

    @property
    def hungry(self) -> bool:
        """Whether there may be jobs to take, for any lane."""
        return any(lane.hungry for lane in self.lanes)

    def look(self) -> None:
        """There may be jobs to take for every lane."""
        for lane in self.lanes:
            lane.hungry = True

    def of(self, queue: str) -> Lane:
        """The lane of a queue that is served here."""
        self.serves(queue)
        return self.lanes[self._of[queue]]

    def serves(self, queue: str) -> bool:
        """Whether jobs of this queue are run here. One never heard of joins the lane that serves all."""
        if queue in self._of:
            return True
        if (every := self.every) is None:
            return False
        self._of[queue] = every - 1
        self.lanes[every - 1].queues.append(queue)
        return True

    def queues(self) -> tuple[list[str], list[int]]:
        """All queues, and the number (from 1) of the lane of each."""
        pairs = [(queue, index + 1) for index, lane in enumerate(self.lanes) for queue in lane.queues]
        return [queue for queue, _ in pairs], [number for _, number in pairs]


def make_lanes(asked: Sequence[config.Lane], concurrency: int, declared: Iterable[str]) -> Lanes:
    """A lane for each queue that has slots of its own, and one of `concurrency` slots for the others.

    Where none is asked for, one lane serves every queue, beginning with those that tasks declare.
    """
    if not asked:
        return Lanes([Lane(concurrency, sorted(set(declared)), every_queue=True)])
    own = [Lane(lane.slots, [lane.queue]) for lane in asked if lane.slots is not None]
    shared = [lane.queue for lane in asked if lane.slots is None]
    return Lanes([*own, Lane(concurrency, shared)] if shared else own)
