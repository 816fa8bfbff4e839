"""How fast jobs come in."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.bench import Bench, Failed
from benchmarks.measurement import Figure, Measurement, Values, everyone
from benchmarks.ours.sleeper import asleep
from benchmarks.system import System

CALLERS = 20

_RATE = Figure("jobs_per_second", "rate", "jobs/s", "higher")


def one_by_one(bench: Bench, system: System) -> Values:
    """Twenty concurrent callers in one process; each enqueues one job, waits until it is durably stored, and goes on.

    No workers run. wakeful's callers find a worker asleep that wants to be poked, and it is poked.
    """
    with bench.site(system) as site, ExitStack() as stack:
        sleeper = stack.enter_context(asleep(site)) if system.kind == "ours" else None
        told = site.call("one_by_one", seconds=bench.sizes.enqueue_seconds, callers=CALLERS)
        if sleeper and not sleeper.pokes():
            raise Failed("the worker that slept was not poked")
    return {"jobs_per_second": told["jobs"] / told["seconds"], **told}


def in_bulk(bench: Bench, system: System) -> Values:
    """One caller hands over jobs by the thousand (or as the system's own interface has it), on one connection."""
    with bench.site(system) as site:
        told = site.call("bulk", jobs=min(bench.sizes.bulk_jobs, system.jobs))
    return {"jobs_per_second": told["jobs"] / told["seconds"], **told}


ONE_BY_ONE = Measurement("enqueue", "Enqueue one by one, 20 callers", (_RATE,), one_by_one, everyone, contested=True)
IN_BULK = Measurement("bulk", "Enqueue in bulk", (_RATE,), in_bulk, everyone)
