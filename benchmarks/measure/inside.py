"""What enqueuing adds to a transaction that the caller has anyway."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, Failed
from benchmarks.driver.load import Load
from benchmarks.measure.enqueue import CALLERS
from benchmarks.measurement import Figure, Measurement, Values
from benchmarks.ours.wakeful import SYSTEM as OURS
from benchmarks.system import System

SLOTS = 2
SECONDS_TO_START = 30.0


def inside(bench: Bench, system: System) -> Values:
    """Twenty callers, each in transactions of its own stack (psycopg, SQLAlchemy): begin, one row or one job, commit.

    A wakeful worker is connected, and busy with two long jobs, so nobody needs to be woken; the poke is on.
    """
    with bench.site(system) as site, site.workers(Load("hold", slots=SLOTS), system=OURS):
        site.call("bulk", system=OURS, jobs=SLOTS, handler="hold")
        deadline = time.monotonic() + SECONDS_TO_START
        while site.probe.missing(SLOTS):
            if time.monotonic() > deadline:
                raise Failed("the worker that should be busy took no job")
            time.sleep(0.05)
        told = site.call("one_by_one", seconds=bench.sizes.enqueue_seconds, callers=CALLERS)
    return {"jobs_per_second": told["jobs"] / told["seconds"], **told}


INSIDE = Measurement(
    "inside",
    "Enqueue inside callers' own transactions, workers busy",
    (Figure("jobs_per_second", "rate", "transactions/s", "higher"),),
    inside,
    lambda system: system.only is not None,
)
