"""How exactly a scheduled job starts."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.driver.load import Load
from benchmarks.figures import waits
from benchmarks.measure.latency import FIGURES, SECONDS_FOR_STRAGGLERS, SLOTS, wait_until_awake
from benchmarks.measurement import Figure, Measurement, Values
from benchmarks.system import System

INTERVAL_MS = 50
AHEAD_SECONDS = 2.0


def timers(bench: Bench, system: System) -> Values:
    """From the moment asked for to the start: jobs scheduled 2 s ahead, one due every 50 ms, a worker of 4 slots."""
    jobs = bench.sizes.timers
    load = Load("noop", slots=SLOTS)
    with bench.site(system) as site, site.workers(load):
        wait_until_awake(site, load)
        site.call("schedule", jobs=jobs, interval_ms=INTERVAL_MS, ahead_seconds=AHEAD_SECONDS)
        deadline = time.monotonic() + AHEAD_SECONDS + jobs * INTERVAL_MS / 1000 + SECONDS_FOR_STRAGGLERS
        while site.probe.missing(jobs) and time.monotonic() < deadline:
            time.sleep(0.05)
        late = site.probe.waits(jobs)
    return {**waits(late), "early": float(sum(wait < 0 for wait in late)), "lost": float(jobs - len(late))}


TIMERS = Measurement(
    "timers",
    "Start of scheduled jobs, after their moment",
    (*FIGURES, Figure("early", "started early", "jobs", "lower")),
    timers,
    lambda system: system.schedules,
    repeated=False,
)
