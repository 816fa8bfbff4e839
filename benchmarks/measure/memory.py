"""How large a worker is, and whether it grows."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, Site
from benchmarks.driver.load import Load
from benchmarks.measure.latency import wait_until_awake
from benchmarks.measurement import Figure, Measurement, Values
from benchmarks.system import System

SLOTS = 100
# How the others grow over a million would take an hour to see.
MOST_FOR_OTHERS = 50_000


def memory(bench: Bench, system: System) -> Values:
    """Resident memory of a worker with 100 slots, after the first quarter of its jobs and after the last."""
    most = bench.sizes.memory_jobs if system.kind == "ours" else min(bench.sizes.memory_jobs, MOST_FOR_OTHERS)
    jobs = min(most, most * system.jobs // MOST_FOR_OTHERS)
    load = Load("noop", slots=SLOTS)
    with bench.site(system) as site, site.workers(load) as groups:
        wait_until_awake(site, load)
        _run(site, jobs // 4)
        early = sum(group.own_megabytes() for group in groups)
        _run(site, jobs - jobs // 4)
        late = sum(group.own_megabytes() for group in groups)
        resident = sum(group.resident_megabytes() for group in groups)
    return {"resident_mb": resident, "growth_mb": late - early, "jobs": jobs}


def _run(site: Site, jobs: int) -> None:
    site.probe.clear()
    site.call("bulk", jobs=jobs)
    deadline = time.monotonic() + max(site.sizes.drain_cap_seconds, jobs / 5_000)
    while site.probe.missing(jobs) and time.monotonic() < deadline:
        time.sleep(0.1)


MEMORY = Measurement(
    "memory",
    "Resident memory, 100 slots",
    (
        Figure("resident_mb", "resident", "MB", "lower"),
        Figure("growth_mb", "growth over the last three quarters", "MB", "lower"),
    ),
    memory,
    lambda system: system.kind != "bare",
    repeated=False,
)
