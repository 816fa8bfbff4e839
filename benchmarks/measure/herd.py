"""How many workers stir for one job."""

from __future__ import annotations

import statistics
import time

from benchmarks.bench import Bench, Site
from benchmarks.driver.load import Load
from benchmarks.measure.latency import SLOTS, wait_until_awake
from benchmarks.measurement import Figure, Measurement, Values, ours
from benchmarks.system import System

SECONDS_A_POKE = 1.0
SECONDS_TO_CALM_DOWN = 5.0


def herd(bench: Bench, system: System) -> Values:
    """Twenty idle worker processes, one job: the claims that it causes, in all of them together.

    From pg_stat_statements in the second after the job was enqueued; the pulse comes by the clock and is not counted.
    """
    load = Load("noop", slots=SLOTS)
    with bench.site(system) as site, site.workers(load, processes=bench.sizes.herd):
        wait_until_awake(site, load, workers=bench.sizes.herd)
        time.sleep(SECONDS_TO_CALM_DOWN)
        with site.connect() as conn:
            caused = []
            for number in range(bench.sizes.herd_pokes):
                before = _claims(site)
                conn.execute("select wakeful.enqueue('noop', jsonb_build_object('n', %s::integer))", [number])
                time.sleep(SECONDS_A_POKE)
                caused.append(_claims(site) - before)
        lost = site.probe.missing(bench.sizes.herd_pokes)
    return {"claims": statistics.median(caused), "most": float(max(caused)), "lost": float(lost)}


def _claims(site: Site) -> int:
    calls = site.server.calls(site.database)
    return sum(count for query, count in calls.items() if "claim_1(" in query or "claim_poked_1(" in query)


HERD = Measurement(
    "herd",
    "Twenty idle processes, one job",
    (Figure("claims", "claims, median", "a job", "lower"), Figure("most", "claims, most", "a job", "lower")),
    herd,
    ours,
    repeated=False,
)
