"""A hundred jobs at once."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.driver.load import Load
from benchmarks.measure.latency import SECONDS_FOR_STRAGGLERS, SLOTS, wait_until_awake
from benchmarks.measurement import Figure, Measurement, Values, everyone
from benchmarks.system import System

JOBS = 100


def burst(bench: Bench, system: System) -> Values:
    """A hundred jobs enqueued in one call, on an idle worker of 4 slots: until the last of them has started."""
    load = Load("noop", slots=SLOTS)
    with bench.site(system) as site, site.workers(load):
        wait_until_awake(site, load)
        began = site.call("bulk", jobs=JOBS)["began_ns"]
        deadline = time.monotonic() + SECONDS_FOR_STRAGGLERS
        while site.probe.missing(JOBS) and time.monotonic() < deadline:
            time.sleep(0.01)
        return {
            "seconds": (site.probe.span(JOBS)[1] - began) / 1e9,
            "lost": float(site.probe.missing(JOBS)),
        }


BURST = Measurement(
    "burst", "A hundred jobs at once", (Figure("seconds", "all started", "s", "lower"),), burst, everyone, False
)
