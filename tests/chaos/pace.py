"""Throughput: bursts of jobs that keep every slot busy, and how many of them are done in a second.

Their handlers take a moment each, as handlers do, so that it is slots that decide, not what else the machine does: a
worker, a slot or a wake-up that did not come back shows at once. It is told as the median over some bursts, with the
error that their spread gives it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from tests.chaos.stage import Stage
from tests.sessions import query
from tests.verbs import enqueue_many
from wakeful.values.identity import new_id

# Of the median, over that of the mean, for a normal distribution.
MEDIAN_ERROR = 1.2533
# More than a second of work for all slots.
JOBS = 600
# What else the machine does is outwaited: bursts go on until the error is this small, or there are so many times more.
SMALL_ERROR = 0.01
PATIENCE = 2


class Done(NamedTuple):
    """When a job was done, and by whom."""

    at: float
    worker: UUID


@dataclass(frozen=True, slots=True)
class Pace:
    """Jobs in a second, and the standard error of that."""

    rate: float
    error: float

    def against(self, before: Pace) -> Pace:
        """As a share of what it was before."""
        share = self.rate / before.rate
        return Pace(share, share * math.hypot(self.error / self.rate, before.error / before.rate))


def measure(stage: Stage, bursts: int) -> Pace:
    """At least so many bursts, each into an empty line; one before them only warms up.

    Behind a pooler nobody is woken, and each worker looks at its own moments: there it is one long burst, cut up.
    """
    burst(stage, JOBS)
    if stage.pooler is None:
        return settled(lambda: rates_of(burst(stage, JOBS), 1), bursts)
    return settled(lambda: rates_of(burst(stage, JOBS * bursts), bursts), bursts)


def settled(take: Callable[[], list[float]], least: int) -> Pace:
    """As many as it takes, within reason."""
    rates = take()
    while len(rates) < least or (is_uncertain(pace_of(rates)) and len(rates) < PATIENCE * least):
        rates += take()
    return pace_of(rates)


def is_uncertain(pace: Pace) -> bool:
    """Whether it is worth another look."""
    return pace.error > SMALL_ERROR * pace.rate


def pace_of(rates: Sequence[float]) -> Pace:
    """The median, and its error."""
    spread = statistics.stdev(rates) if len(rates) > 1 else 0.0
    return Pace(statistics.median(rates), MEDIAN_ERROR * spread / math.sqrt(len(rates)))


def rates_of(done: Sequence[Done], pieces: int) -> list[float]:
    """Jobs in a second, in so many pieces of equal length, while there was work for all and all were at it.

    So a burst's beginning and its end are left out: a tenth of each, and at its beginning as much as it takes until the
    last worker has come; but half of it at most, since one that takes longer is one that is missing.
    """
    came: dict[UUID, int] = {}
    for place, one in enumerate(done):
        came.setdefault(one.worker, place)
    first = min(max(len(done) // 10, *came.values()), len(done) // 2)
    length = (len(done) * 9 // 10 - first) // pieces
    places = range(first, first + length * pieces, length)
    return [length / (done[place + length].at - done[place].at) for place in places]


def burst(stage: Stage, count: int) -> list[Done]:
    """So many jobs that come at once, in the order in which they were done."""
    ids = [new_id() for _ in range(count)]
    stage.history.ask(*((id, "nap") for id in ids))
    with stage.session() as db:
        enqueue_many(db, [{"id": str(id), "task": "nap", "payload": {}, "max_attempts": 1000} for id in ids])
    stage.history.answer(*((id, id) for id in ids))
    assert stage.drain(), "a burst did not come to its end"
    with stage.session() as db:
        rows = query(
            db,
            "select extract(epoch from at)::float8 as at, worker from witness.move"
            " where job = any (%s) and after is null order by 1",
            ids,
        )
    return [Done(**row) for row in rows]
