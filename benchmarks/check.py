"""Whether this run's ratios are still the published ones: times depend on the machine, ratios much less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.figures import Spread
from benchmarks.measurement import Measurement
from benchmarks.report.comparison import OURS, spread_text
from benchmarks.results import Results

# Rounds of one run differ by this much on a shared machine.
TOLERANCE = 0.25


@dataclass(frozen=True, slots=True)
class Move:
    """A ratio that is not what it was. `worse`: for wakeful."""

    measurement: str
    title: str
    before: Spread
    after: Spread
    worse: bool

    def __str__(self) -> str:
        way = "worse" if self.worse else "better"
        return (
            f"{way}: {self.measurement}, wakeful to {self.title} "
            f"{spread_text(self.after)}, published {spread_text(self.before)}"
        )


def moves(published: Results, fresh: Results, measurements: Sequence[Measurement]) -> Iterator[Move]:
    """Ratios of wakeful to others that have left the published range by more than the tolerance."""
    for measurement in measurements:
        figure = measurement.figure
        for name in fresh.systems_in(measurement.name):
            before = published.ratio(measurement.name, figure.key, OURS, name)
            after = fresh.ratio(measurement.name, figure.key, OURS, name)
            if name == OURS or before is None or after is None:
                continue
            sunk = after.median < before.low * (1 - TOLERANCE)
            risen = after.median > before.high * (1 + TOLERANCE)
            if sunk or risen:
                worse = sunk if figure.better == "higher" else risen
                yield Move(measurement.name, fresh.systems[name]["title"], before, after, worse)
