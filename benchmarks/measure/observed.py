"""What it costs to be told of every job."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.driver.load import Load
from benchmarks.measure.draining import filled_and_drained
from benchmarks.measurement import Figure, Measurement, Values, ours
from benchmarks.ours.wakeful import OBSERVED
from benchmarks.system import System


def observed(bench: Bench, system: System) -> Values:
    """Drain of no-ops, one process: bare, and with two log lines a job, metrics, and tracing without an exporter."""
    found = []
    for load in (Load("noop"), Load("noop", environment=((OBSERVED, "1"),))):
        with bench.site(system) as site:
            found.append(filled_and_drained(site, load))
    bare, told = found
    return {
        "told_to_bare": told["jobs_per_second"] / bare["jobs_per_second"],
        "bare": bare["jobs_per_second"],
        "told": told["jobs_per_second"],
        "bare_cpu_us": bare["worker_cpu_us"],
        "told_cpu_us": told["worker_cpu_us"],
    }


OBSERVED_DRAIN = Measurement(
    "observed",
    "Drain with everything observed",
    (
        Figure("told_to_bare", "observed to bare", "ratio", "higher"),
        Figure("bare", "bare", "jobs/s", "higher"),
        Figure("told", "observed", "jobs/s", "higher"),
        Figure("bare_cpu_us", "processor time bare", "µs/job", "lower"),
        Figure("told_cpu_us", "observed", "µs/job", "lower"),
    ),
    observed,
    ours,
)
