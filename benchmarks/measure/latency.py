"""How soon a job starts."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, Failed, Site
from benchmarks.driver.load import Load
from benchmarks.driver.producing import WARM_UP
from benchmarks.figures import waits
from benchmarks.measurement import Figure, Measurement, Values, everyone
from benchmarks.system import System

SLOTS = 4
IDLE_INTERVAL_MS = 25
# Two slots of 5 ms carry 400 jobs a second.
LOADED_SLOTS = 2
HALF_LOAD_INTERVAL_MS = 5
SECONDS_TO_START = 45.0
SECONDS_FOR_STRAGGLERS = 10.0

FIGURES = (
    Figure("p50_ms", "p50", "ms", "lower"),
    Figure("p95_ms", "p95", "ms", "lower"),
    Figure("p99_ms", "p99", "ms", "lower"),
)


def idle(bench: Bench, system: System) -> Values:
    """From the call that enqueues to the start of the handler: a job every 25 ms, and an idle worker of 4 slots."""
    with bench.site(system) as site:
        return _paced(site, Load("noop", slots=SLOTS), bench.sizes.waits, IDLE_INTERVAL_MS)


def loaded(bench: Bench, system: System) -> Values:
    """The same with 200 jobs a second of 5 ms each on two slots, which is half of what these can carry."""
    with bench.site(system) as site:
        return _paced(site, Load("sleep", slots=LOADED_SLOTS), bench.sizes.loaded_waits, HALF_LOAD_INTERVAL_MS)


def _paced(site: Site, load: Load, jobs: int, interval_ms: float) -> Values:
    with site.workers(load):
        wait_until_awake(site, load)
        site.call("pace", jobs=jobs, interval_ms=interval_ms, handler=load.handler)
        deadline = time.monotonic() + SECONDS_FOR_STRAGGLERS
        while site.probe.missing(jobs) and time.monotonic() < deadline:
            time.sleep(0.05)
    if not site.probe.waits(jobs):
        raise Failed("no job started")
    return {**waits(site.probe.waits(jobs)), "lost": float(site.probe.missing(jobs))}


def wait_until_awake(site: Site, load: Load, workers: int = 1) -> None:
    """Until a worker has run a job, and a moment longer, so that what it does at its start is done."""
    site.call("bulk", jobs=WARM_UP * workers, handler=load.handler)
    deadline = time.monotonic() + SECONDS_TO_START
    while site.probe.missing(WARM_UP * workers):
        if time.monotonic() > deadline:
            raise Failed(f"no job started within {SECONDS_TO_START:.0f} s: see {site.system.name}.log")
        time.sleep(0.05)
    time.sleep(1)
    site.probe.clear()


IDLE = Measurement("latency", "Enqueue to start, idle worker", FIGURES, idle, everyone, contested=True)
LOADED = Measurement(
    "latency-loaded",
    "Enqueue to start, half load",
    FIGURES,
    loaded,
    lambda system: "sleep" in system.handlers,
)
