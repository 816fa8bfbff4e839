"""Asking: how many jobs the next claim asks for, from which lanes, and from where in line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

from wakeful.claim.appetite import Appetite
from wakeful.claim.horizon import Horizon
from wakeful.claim.lanes import Lanes
from wakeful.claim.solitude import Solitude, Turn
from wakeful.statements.claim import ClaimRequest, Sleeps
from wakeful.values.job import Job, in_line
from wakeful.values.wakeup import Position
from wakeful.worker.crew import Crew
from wakeful.worker.ears import Ears
from wakeful.worker.presence import Presence


class Asking:
    """What the last answers have taught: the appetite, the horizon, and whether a suspect is to run alone."""

    def __init__(self, presence: Presence, tasks: Sequence[str], lanes: Lanes, clock: Callable[[], float]) -> None:
        self._presence = presence
        self._tasks = tasks
        self._lanes = lanes
        self._clock = clock
        self._asked_at = 0.0
        self.horizon = Horizon()
        self.appetite = Appetite()
        self.solitude = Solitude()
        # One runs that must run alone.
        self.alone = False

    @property
    def none(self) -> list[int]:
        """Nothing, for each lane."""
        return [0] * len(self._lanes.lanes)

    def begin_anew(self) -> None:
        """The worker has a new id: nothing it knew of its standing holds any more."""
        self.solitude.wanted = self.alone = False
        self.horizon.drop()

    def turn(self, crew: Crew) -> Turn:
        """Whether to work, to wait until nothing runs, or to take one alone."""
        return self.solitude.turn(crew.idle, self._clock())

    def limits(self, crew: Crew, budget: int | None) -> list[int]:
        """How many jobs to ask for, for each lane."""
        none = self.none
        if self.alone:
            return none
        if (turn := self.turn(crew)) != "work":
            return [1, *none[1:]] if turn == "alone" and budget != 0 else none
        extra, batch = self.appetite.extra(), crew.largest_batch
        limits = [lane.room(extra, batch) for lane in self._lanes.lanes]
        # Asked with one that is hungry, the others too: who is not asked is not declared to be asleep.
        if not any(limit and lane.hungry for limit, lane in zip(limits, self._lanes.lanes, strict=True)):
            return none
        return limits if budget is None else self._within(budget, limits)

    def claim(
        self,
        limits: Sequence[int],
        now: float,
        crew: Crew,
        ears: Ears,
        *,
        tend: bool,
        brief: bool,
        pass_on: bool,
        poked: UUID | None,
    ) -> ClaimRequest:
        """The request of a claim."""
        self._asked_at = now
        queues, lanes = self._lanes.queues()
        alone = self.turn(crew) == "alone"
        return ClaimRequest(
            self._presence.worker_id,
            queues,
            [1] * len(lanes) if alone else lanes,
            limits,
            self._tasks,
            None if alone else self.horizon.bounds(queues, now),
            tend=tend,
            sleeps=None if alone else self._sleeps(ears),
            pass_on=pass_on,
            alone=alone,
            brief=brief,
            free=self._free(limits),
            # Whose last slot the job might take has to see whether there is more, and to pass the poke on.
            poked=poked if brief and min(limits) > 1 else None,
            takes=None if alone else self.takes(ears),
        )

    def pulse(self, limits: Sequence[int], ears: Ears) -> ClaimRequest:
        """The request of a pulse, which looks from the start of the line."""
        self._asked_at = self._clock()
        queues, lanes = self._lanes.queues()
        sleeps = self._sleeps(ears) if any(limits) else None
        takes = self.takes(ears) if sleeps else None
        return ClaimRequest(
            *(self._presence.worker_id, queues, lanes, limits, self._tasks),
            sleeps=sleeps,
            free=self._free(limits),
            takes=takes,
        )

    def advance(self, jobs: Sequence[Job], request: ClaimRequest, again: bool) -> bool:
        """Move the horizon of each lane that got all it asked for; True when one did not. Those rest, or look again."""
        short = False
        now = self._clock()
        for lane, limit in zip(self._lanes.lanes, request.limits, strict=True):
            if limit <= 0:
                continue
            taken = jobs if len(request.limits) == 1 else [job for job in jobs if self._lanes.of(job.queue) is lane]
            lane.hungry = len(taken) >= limit or again
            if len(taken) < limit:
                short = True
            else:
                self.horizon.advance(lane.queues, last_in_line(taken), now, now - self._asked_at)
        return short

    def takes(self, ears: Ears) -> str | None:
        """The channel on which jobs may be handed over; none while a suspect waits for its chance to run alone."""
        return self._presence.hand_channel if ears.hears and not self.solitude.wanted else None

    def offers_slots(self, jobs: Sequence[Job], request: ClaimRequest) -> bool:
        """Whether the claim has declared that jobs may be handed over: two slots are left in every lane."""
        taken = Counter(self._lanes.lanes.index(self._lanes.of(job.queue)) for job in jobs)
        return request.takes is not None and all(
            free - taken[lane] > 1 for lane, free in enumerate(request.free or request.limits)
        )

    def _within(self, budget: int, limits: list[int]) -> list[int]:
        """No more than the budget in sum; hungry lanes first, or one that is empty would be asked for ever."""
        for index in sorted(range(len(limits)), key=lambda place: not self._lanes.lanes[place].hungry):
            limits[index] = min(limits[index], budget)
            budget -= limits[index]
        return limits

    def _free(self, limits: Sequence[int]) -> list[int]:
        """How many of these are slots that are free now; below zero where jobs are held ready already."""
        return [min(limit, lane.free) for limit, lane in zip(limits, self._lanes.lanes, strict=True)]

    def _sleeps(self, ears: Ears) -> Sleeps | None:
        if not ears.hears:
            return None
        return "all" if self._lanes.every is not None else "these"


def last_in_line(jobs: Sequence[Job]) -> Position:
    """The position of the one that stood last."""
    return max(jobs, key=in_line).position
