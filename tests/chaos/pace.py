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
    """At least so many bursts, each into an empty line; one before them only warms up."""
    burst(stage, JOBS)
    return settled(lambda: rate_of(burst(stage, JOBS)), bursts)


def settled(take: Callable[[], float], least: int) -> Pace:
    """As many as it takes, within reason."""
    rates = [take() for _ in range(least)]
    while (pace := pace_of(rates)).error > SMALL_ERROR * pace.rate and len(rates) < PATIENCE * least:
        rates.append(take())
    return pace


def pace_of(rates: Sequence[float]) -> Pace:
    """The median, and its error."""
    spread = statistics.stdev(rates) if len(rates) > 1 else 0.0
    return Pace(statistics.median(rates), MEDIAN_ERROR * spread / math.sqrt(len(rates)))


def rate_of(done: Sequence[float]) -> float:
    """Jobs in a second, while there was work for all: the beginning and the end of a burst are left out."""
    first, last = len(done) // 10, len(done) * 9 // 10
    return (last - first) / (done[last] - done[first])


def burst(stage: Stage, count: int) -> list[float]:
    """Of so many jobs that come at once: the moments at which they were done, one after the other."""
    ids = [new_id() for _ in range(count)]
    stage.history.ask(*((id, "nap") for id in ids))
    with stage.session() as db:
        enqueue_many(db, [{"id": str(id), "task": "nap", "payload": {}, "max_attempts": 1000} for id in ids])
    stage.history.answer(*((id, id) for id in ids))
    assert stage.drain(), "a burst did not come to its end"
    with stage.session() as db:
        rows = query(
            db,
            "select extract(epoch from at) as at from witness.move where job = any (%s) and after is null order by 1",
            ids,
        )
    return [float(row["at"]) for row in rows]
