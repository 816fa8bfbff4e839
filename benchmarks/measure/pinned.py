"""What happens while a long transaction keeps vacuum from cleaning up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from benchmarks.bench import Bench, Site
from benchmarks.driver.load import Load
from benchmarks.measure.draining import drain
from benchmarks.measurement import Figure, Measurement, Values, with_postgres
from benchmarks.system import System

ROUNDS = 4

_FIGURES = (
    Figure("last_to_first", "round 4 to round 1", "ratio", "higher"),
    *(Figure(f"round_{number}", f"round {number}", "jobs/s", "higher") for number in range(1, ROUNDS + 1)),
)


def own_batch(bench: Bench, system: System) -> Values:
    """Four rounds of 20,000 no-ops, filled and drained by a worker at its own batch size.

    Meanwhile another session holds a repeatable-read transaction open, so that no dead row can be removed.
    """
    with bench.site(system) as site:
        return _rounds(site, Load("noop"))


def tens(bench: Bench, system: System) -> Values:
    """The same with claims of ten, by wakeful's SQL functions called from a plain loop and by the bare driver."""
    with bench.site(system) as site:
        return _rounds(site, Load("noop", batch=10))


def _rounds(site: Site, load: Load) -> Values:
    jobs = min(site.sizes.pinned_jobs, site.system.jobs)
    with _pinned(site):
        rates = []
        for _ in range(ROUNDS):
            site.call("bulk", jobs=jobs, handler=load.handler)
            site.settle()
            rates.append(drain(site, jobs, load)["jobs_per_second"])
    return {
        "last_to_first": rates[-1] / rates[0],
        **{f"round_{number}": rate for number, rate in enumerate(rates, 1)},
    }


@contextmanager
def _pinned(site: Site) -> Iterator[None]:
    with psycopg.connect(site.dsn) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select count(*) from pg_class")
        yield


OWN_BATCH = Measurement("pinned", "Four rounds with a pinned snapshot", _FIGURES, own_batch, with_postgres)
TENS = Measurement(
    "pinned-10",
    "Four rounds with a pinned snapshot, claims of ten",
    _FIGURES,
    tens,
    lambda system: system.kind == "bare",
    repeated=False,
)
