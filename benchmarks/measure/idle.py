"""What a worker costs that has nothing to do."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.driver.load import Load
from benchmarks.measure.latency import SLOTS, wait_until_awake
from benchmarks.measurement import Figure, Measurement, Values, with_postgres
from benchmarks.system import System

SECONDS_TO_CALM_DOWN = 5.0


def idle(bench: Bench, system: System) -> Values:
    """Statements that one idle worker process with 4 slots sends, over a minute, from pg_stat_statements.

    Everything counts: polls, heartbeats, maintenance, BEGIN and COMMIT.
    """
    load = Load("noop", slots=SLOTS)
    seconds = bench.sizes.idle_seconds
    with bench.site(system) as site, site.workers(load) as groups:
        wait_until_awake(site, load)
        time.sleep(min(SECONDS_TO_CALM_DOWN, seconds))
        calls = sum(bench.server.calls(site.database).values())
        cpu = sum(group.cpu_seconds() for group in groups)
        time.sleep(seconds)
        sent = sum(bench.server.calls(site.database).values()) - calls
        used = sum(group.cpu_seconds() for group in groups) - cpu
        resident = sum(group.resident_megabytes() for group in groups)
    return {
        "queries_per_second": sent / seconds,
        "cpu_percent": used / seconds * 100,
        "resident_mb": resident,
    }


IDLE = Measurement(
    "idle",
    "Idle worker",
    (
        Figure("queries_per_second", "statements", "per second", "lower"),
        Figure("cpu_percent", "worker processor time", "%", "lower"),
        Figure("resident_mb", "resident memory", "MB", "lower"),
    ),
    idle,
    with_postgres,
    repeated=False,
    contested=True,
    together=True,
)
