"""How fast jobs go out."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.driver.load import Load
from benchmarks.measure.draining import COSTS, RATE, filled_and_drained
from benchmarks.measurement import Measurement, Values, everyone
from benchmarks.system import System


def one_process(bench: Bench, system: System) -> Values:
    """One worker process empties a queue of no-op jobs, 50,000 for those that are not slow.

    From the first start of a handler to the moment when the database knows of no unfinished job. Every job must have
    run exactly once. The costs are those of a job's whole life: enqueued in bulk, run, and finished.
    """
    with bench.site(system) as site:
        return filled_and_drained(site, Load("noop"))


def two_processes(bench: Bench, system: System) -> Values:
    """The same with two worker processes on the same queue."""
    with bench.site(system) as site:
        return filled_and_drained(site, Load("noop"), processes=2)


def sleeps(bench: Bench, system: System) -> Values:
    """The same with handlers that wait 5 ms, as for a reply over the network, at the system's best concurrency."""
    with bench.site(system) as site:
        return filled_and_drained(site, Load("sleep"))


def sync(bench: Bench, system: System) -> Values:
    """The same with plain functions, which the systems run in threads or processes."""
    with bench.site(system) as site:
        return filled_and_drained(site, Load("sync"))


ONE_PROCESS = Measurement(
    "drain", "Drain of no-ops, one process", (RATE, *COSTS), one_process, everyone, contested=True
)
TWO_PROCESSES = Measurement("drain-2", "Drain of no-ops, two processes", (RATE,), two_processes, everyone)
SLEEPS = Measurement("drain-sleep", "Drain of 5 ms sleeps", (RATE,), sleeps, lambda system: "sleep" in system.handlers)
SYNC = Measurement("drain-sync", "Drain of sync handlers", (RATE,), sync, lambda system: "sync" in system.handlers)
