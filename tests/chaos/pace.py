"""Throughput, measured against a twin: a queue of the same make on this machine, to which nothing is ever done.

The two race: the same burst of jobs at the same time, and what else the machine does slows both. How many jobs one gets
done for each of the other's is told as the median over some races, with the error that their spread gives it.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.evidence import WITNESS
from tests.chaos.server import private_server
from tests.chaos.stage import Stage, stage_on, started
from tests.sessions import query
from tests.verbs import enqueue_many
from wakeful.values.identity import new_id

# Of the median, over that of the mean, for a normal distribution.
MEDIAN_ERROR = 1.2533
TWIN_LEASE = 30.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast, in terms of the twin, and the standard error of that."""

    ratio: float
    error: float

    def against(self, before: Pace) -> Pace:
        """As a share of what it was before."""
        share = self.ratio / before.ratio
        return Pace(share, share * math.hypot(self.error / self.ratio, before.error / before.ratio))


@dataclass(frozen=True, slots=True)
class Rounds:
    """So many races, of so many jobs each."""

    races: int = 7
    jobs: int = 3000


def measure(stage: Stage, twin: Stage, rounds: Rounds) -> Pace:
    """Races of the two, from empty lines; the first only warms up."""
    for one in (stage, twin):
        with one.session() as db:
            # What autovacuum would do now and then is done for both.
            db.execute("vacuum analyze")
    return pace_of([race(stage, twin, rounds.jobs) for _ in range(rounds.races + 1)][1:])


def race(stage: Stage, twin: Stage, jobs: int) -> float:
    """How many jobs one gets done for each of the twin's, until the first of them is through."""
    with ThreadPoolExecutor(2) as runners:
        ours, theirs = runners.map(lambda one: burst(one, jobs), (stage, twin))
    until = min(ours[-1], theirs[-1])
    return bisect_right(ours, until) / bisect_right(theirs, until)


def pace_of(ratios: Sequence[float]) -> Pace:
    """The median, and its error."""
    spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
    return Pace(statistics.median(ratios), MEDIAN_ERROR * spread / math.sqrt(len(ratios)))


def burst(stage: Stage, count: int) -> list[float]:
    """Of so many jobs that come at once: when each was done, in seconds since the first was claimed."""
    ids = [new_id() for _ in range(count)]
    stage.history.ask(*((id, "plain") for id in ids))
    with stage.session() as db:
        enqueue_many(db, [{"id": str(id), "task": "plain", "payload": {}, "max_attempts": 1000} for id in ids])
    stage.history.answer(*((id, id) for id in ids))
    assert stage.drain(), "a burst did not come to its end"
    with stage.session() as db:
        rows = query(
            db,
            "select extract(epoch from at - first_value(at) over (order by at)) as at, after from witness.move"
            " where job = any (%s) and (after = 2 or after is null) order by 1",
            ids,
        )
    return [float(row["at"]) for row in rows if row["after"] is None]


@contextmanager
def twin_at_work() -> Iterator[Stage]:
    """The twin, ready."""
    with tempfile.TemporaryDirectory(prefix="wakeful-twin-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with (
            private_server(folder / "server", tables=WITNESS) as server,
            stage_on(server.dsn, folder, 0, server) as twin,
        ):
            twin.flags["lease"] = TWIN_LEASE
            started(twin)
            yield twin
