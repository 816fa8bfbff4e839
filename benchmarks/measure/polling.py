"""Whether being woken costs throughput."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.driver.load import Load
from benchmarks.measure.draining import filled_and_drained
from benchmarks.measurement import Figure, Measurement, Values, ours
from benchmarks.system import System

POLLING = (("WAKEFUL_NOTIFY", "off"), ("WAKEFUL_POLL_INTERVAL", "0.05"))


def polling(bench: Bench, system: System) -> Values:
    """Drain of no-ops with notifications on, and with none and a poll every 50 ms."""
    rates = {}
    for name, environment in (("notified", ()), ("polled", POLLING)):
        with bench.site(system) as site:
            rates[name] = filled_and_drained(site, Load("noop", environment=environment))["jobs_per_second"]
    return {"notified_to_polled": rates["notified"] / rates["polled"], **rates}


POLLING_OR_NOT = Measurement(
    "polling",
    "Drain with notifications and with polling",
    (
        Figure("notified_to_polled", "notified to polled", "ratio", "higher"),
        Figure("notified", "notified", "jobs/s", "higher"),
        Figure("polled", "polled every 50 ms", "jobs/s", "higher"),
    ),
    polling,
    ours,
    repeated=False,
)
