"""Whether jobs cost more when there are many others."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.driver.load import Load
from benchmarks.measure.draining import drain
from benchmarks.measurement import Figure, Measurement, Values, ours
from benchmarks.ours.crowd import add_finished, add_scheduled
from benchmarks.system import System


def history(bench: Bench, system: System) -> Values:
    """Drain of no-ops, one process, with millions of finished jobs in the tables, and with scheduled ones."""
    values: dict[str, float] = {}
    for millions in bench.sizes.history_millions:
        values[f"finished_{millions:g}m"] = _rate(bench, system, millions, 0)
    values["scheduled"] = _rate(bench, system, 0, bench.sizes.scheduled_millions)
    alone = values["finished_0m"]
    return {"worst_to_none": min(values.values()) / alone, **values}


def _rate(bench: Bench, system: System, finished_millions: float, scheduled_millions: float) -> float:
    with bench.site(system) as site:
        with site.connect() as conn:
            add_finished(conn, int(finished_millions * 1e6))
            add_scheduled(conn, int(scheduled_millions * 1e6))
        site.call("bulk", jobs=site.jobs)
        site.settle()
        return drain(site, site.jobs, Load("noop"))["jobs_per_second"]


HISTORY = Measurement(
    "history",
    "Drain with a crowd in the tables",
    (
        Figure("worst_to_none", "worst to none", "ratio", "higher"),
        Figure("finished_0m", "no others", "jobs/s", "higher"),
        Figure("finished_1m", "1 million finished", "jobs/s", "higher"),
        Figure("finished_10m", "10 million finished", "jobs/s", "higher"),
        Figure("scheduled", "1 million scheduled", "jobs/s", "higher"),
    ),
    history,
    ours,
    repeated=False,
)
