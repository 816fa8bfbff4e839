"""`make soak`: mixed load with random faults for hours; memory, descriptors and tables must not grow.

The workers that are measured are never killed: faults come to the server's sessions, and to a third worker.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from statistics import fmean

from tests.chaos.evidence import WITNESS
from tests.chaos.server import private_server
from tests.chaos.stage import Stage, stage_on, started
from tests.sessions import Session, query
from tests.worker.processes import WorkerProcess

# What the last soak said, for the page that `make chaos` writes.
SAID = Path(__file__).parents[2] / ".build" / "soak.txt"
LEASE = 5.0
MOST_MB_AN_HOUR = 1.0
MOST_GROWTH = 0.2
# Of the whole time, and in hours, at least: what a process takes to warm up is no leak.
WARM_UP = 0.25
LEAST_WARM_UP_HOURS = 2 / 60
# A line through fewer hours than this says more of the collector's moods than of a leak.
LEAST_HOURS = 3 / 60
LEAST_HOURS_FOR_MEMORY = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """What there was at one moment, in hours since the beginning."""

    hours: float
    rss_mb: float
    descriptors: int
    tables_mb: Mapping[str, float]

    @property
    def table_mb(self) -> float:
        """Of all tables together, with their indexes."""
        return sum(self.tables_mb.values())


Number = Callable[[Sample], float]
RSS_MB: Number = attrgetter("rss_mb")
DESCRIPTORS: Number = attrgetter("descriptors")
TABLE_MB: Number = attrgetter("table_mb")


def main() -> int:
    """Run for so long, and say what grew."""
    parser = argparse.ArgumentParser(prog="make soak ARGS=…")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    # So that workers and the server are taken down by whoever started them.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="wakeful-soak-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        settings = {"autovacuum": "on", "autovacuum_naptime": "5s"}
        with (
            private_server(folder / "server", tables=WITNESS, **settings) as server,
            stage_on(server.dsn, folder, asked.seed, server) as stage,
        ):
            samples = soak(stage, asked.hours)
            drained = stage.drain()
    complaints = [*judged(samples), *([] if drained else ["the line did not drain"])]
    print(f"{len(samples)} samples over {asked.hours:g} h, seed {asked.seed}")
    lines = [told(samples), *(complaints or ["nothing grew"])]
    print("\n".join(lines))
    SAID.parent.mkdir(exist_ok=True)
    SAID.write_text(f"{asked.hours:g} h of mixed load with random faults, seed {asked.seed}: {'; '.join(lines)}")
    return 1 if complaints else 0


def soak(stage: Stage, hours: float) -> list[Sample]:
    """Load and faults until the time is over; a sample every few seconds."""
    stage.flags["lease"] = LEASE
    with stage.session() as db:
        # The witness keeps everything, which is not what is measured here.
        db.execute("drop trigger witness_rows on wakeful.job")
        db.execute("drop trigger witness_moves on wakeful.job")
    started(stage)
    kept = stage.workers[:2]
    stage.begin_load(40)
    began = time.monotonic()
    samples: list[Sample] = []
    while (passed := (time.monotonic() - began) / 3600) < hours:
        time.sleep(stage.dice.uniform(*PAUSE))
        disturb(stage, kept)
        with stage.session() as db:
            samples.append(sample(db, kept, passed))
            tidy(db)
    stage.end_load()
    return samples


PAUSE = (1.0, 5.0)


def tidy(db: Session) -> None:
    """What is over is kept as long as a user wants, dead letters until someone has seen them: here, for a minute."""
    db.execute(
        "update wakeful.dead_letter set acknowledged = true, acknowledged_by = 'soak', acknowledged_at = wakeful.now()"
        " where not acknowledged"
    )
    for state in ("completed", "cancelled", "dead"):
        query(db, "select wakeful.cleanup(%s, interval '1 minute')", state)


def disturb(stage: Stage, kept: list[WorkerProcess]) -> None:
    """One of the faults that the measured workers outlive."""
    match stage.dice.randrange(4):
        case 0:
            for worker in stage.workers:
                if worker not in kept:
                    worker.kill()
            stage.fill()
        case 1:
            stage.flood(200)
        case 2:
            with stage.session() as db:
                query(
                    db,
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name like 'wakeful%' and pid <> pg_backend_pid()",
                )
        case _:
            pass


def sample(db: Session, kept: list[WorkerProcess], hours: float) -> Sample:
    """What the measured workers and the tables take."""
    pids = [worker.process.pid for worker in kept]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    open_files = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
    sizes = query(
        db,
        "select c.relname, pg_total_relation_size(c.oid) as size from pg_class c"
        " where c.relnamespace = 'wakeful'::regnamespace and c.relkind in ('r', 'm')",
    )
    tables = {row["relname"]: row["size"] / 1e6 for row in sizes}
    return Sample(hours, pages * 4096 / 1e6 / len(pids), open_files, tables)


def told(samples: list[Sample]) -> str:
    """The numbers, and how far the slope of memory can be trusted."""
    settled = settled_of(samples)
    if len(settled) < 3:
        return "too few samples for a slope"
    points = [(one.hours, one.rss_mb) for one in settled]
    rss, descriptors, tables = (ends_of(settled, number) for number in (RSS_MB, DESCRIPTORS, TABLE_MB))
    return (
        f"after warming up, over {points[-1][0] - points[0][0]:.2f} h, from the first quarter of it to the last: memory"
        f" {rss[0]:.1f} to {rss[1]:.1f} MB in a worker ({slope_of(points):+.2f} MB/h ± {error_of(points):.2f}),"
        f" descriptors {descriptors[0]:.1f} to {descriptors[1]:.1f}, tables {tables[0]:.1f} to {tables[1]:.1f} MB"
    )


def settled_of(samples: list[Sample]) -> list[Sample]:
    """Those after the time that it takes to warm up."""
    warm = max(samples[-1].hours * WARM_UP, LEAST_WARM_UP_HOURS) if samples else 0.0
    return [one for one in samples if one.hours >= warm]


def judged(samples: list[Sample]) -> list[str]:
    """What grew, after the time that it takes to warm up."""
    settled = settled_of(samples)
    hours = settled[-1].hours - settled[0].hours if settled else 0.0
    if hours < LEAST_HOURS:
        return ["too short to tell: give more --hours"]
    complaints = []
    slope = slope_of([(one.hours, one.rss_mb) for one in settled])
    if slope > MOST_MB_AN_HOUR and hours >= LEAST_HOURS_FOR_MEMORY:
        complaints.append(f"memory grows by {slope:.1f} MB an hour in a worker, {MOST_MB_AN_HOUR:g} at most")
    for what, number in (("descriptors", DESCRIPTORS), ("MB of tables", TABLE_MB)):
        early, late = ends_of(settled, number)
        if late > early * (1 + MOST_GROWTH) + 1:
            most = f", most of it {grown_most(settled)}" if number is TABLE_MB else ""
            complaints.append(f"{early:.1f} {what} have become {late:.1f}{most}")
    return complaints


def grown_most(samples: list[Sample]) -> str:
    """The table that has grown by the most, from how much to how much."""
    ends = {name: ends_of(samples, size_of(name)) for name in samples[-1].tables_mb}
    name = max(ends, key=lambda one: ends[one][1] - ends[one][0])
    return f"{name}: {ends[name][0]:.1f} to {ends[name][1]:.1f}"


def size_of(name: str) -> Number:
    """What one table takes; nothing, before there was one of that name."""
    return lambda one: one.tables_mb.get(name, 0.0)


def ends_of(samples: list[Sample], number: Number) -> tuple[float, float]:
    """The means of one of its numbers over the first quarter and over the last."""
    quarter = max(1, len(samples) // 4)
    early, late = (fmean(map(number, part)) for part in (samples[:quarter], samples[-quarter:]))
    return early, late


def slope_of(points: list[tuple[float, float]]) -> float:
    """By least squares."""
    x = sum(point[0] for point in points) / len(points)
    y = sum(point[1] for point in points) / len(points)
    spread = sum((point[0] - x) ** 2 for point in points)
    return sum((point[0] - x) * (point[1] - y) for point in points) / spread if spread else 0.0


def error_of(points: list[tuple[float, float]]) -> float:
    """The standard error of that slope. Neighbours are alike, so there are fewer independent points than points."""
    slope, count = slope_of(points), len(points)
    x = sum(point[0] for point in points) / count
    y = sum(point[1] for point in points) / count
    rests = [point[1] - y - slope * (point[0] - x) for point in points]
    power = sum(rest**2 for rest in rests)
    if not power:
        return 0.0
    alike = max(0.0, sum(one * two for one, two in pairwise(rests)) / power)
    independent = max(3.0, count * (1 - alike) / (1 + alike))
    variance = power / (count - 2)
    return math.sqrt(variance / sum((point[0] - x) ** 2 for point in points) * count / independent)


if __name__ == "__main__":
    sys.exit(main())
