"""Runs workers on a filled queue until it is empty, and tells how that went."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.bench import Failed, Site
from benchmarks.driver.load import Load
from benchmarks.measurement import Figure, Values
from benchmarks.processes import Group

SECONDS_TO_START = 45.0
SECONDS_TO_SETTLE = 20.0

RATE = Figure("jobs_per_second", "rate", "jobs/s", "higher")
COSTS = (
    Figure("worker_cpu_us", "worker processor time", "µs/job", "lower"),
    Figure("server_cpu_us", "server processor time", "µs/job", "lower"),
    Figure("wal_bytes", "write-ahead log", "bytes/job", "lower"),
    Figure("commits", "commits", "per job", "lower"),
    Figure("dead_tuples", "dead tuples", "per job", "lower"),
    Figure("resident_mb", "resident memory", "MB", "lower"),
)


def filled_and_drained(site: Site, load: Load, processes: int = 1) -> Values:
    """Enqueue the system's number of jobs, then drain them."""
    jobs = site.jobs
    before = site.server.counters(site.database) if site.system.store == "postgres" else None
    site.call("bulk", jobs=jobs, handler=load.handler)
    site.settle()
    values = drain(site, jobs, load, processes)
    if before is None:
        return values
    after = site.server.counters(site.database)
    done = max(1.0, values["handled"])
    return {
        **values,
        "wal_bytes": (after.wal_bytes - before.wal_bytes) / done,
        "commits": (after.commits - before.commits) / done,
        "dead_tuples": (after.dead_tuples - before.dead_tuples) / done,
    }


def drain(site: Site, jobs: int, load: Load, processes: int = 1) -> dict[str, float]:
    """From the first start of a handler until every job is finished in the database, or the time is up."""
    site.probe.clear()
    server_before = site.server.counters("postgres").cpu_seconds
    with site.workers(load, processes) as groups:
        started_cpu = _wait_for_handlers(site, jobs, groups)
        missing = site.probe.missing(jobs)
        first, last = site.probe.span(jobs)
        end = _wait_until_settled(site, last) if missing == 0 else time.monotonic_ns()
        server_cpu = site.server.counters("postgres").cpu_seconds - server_before
        worker_cpu = _cpu(groups) - started_cpu
        resident = sum(group.resident_megabytes() for group in groups)
    handled = jobs - missing
    seconds = (end - first) / 1e9
    return {
        "jobs_per_second": handled / seconds,
        "seconds": seconds,
        "handled": handled,
        "cut_off": float(missing > 0),
        "doubled": float(site.probe.doubled(jobs)),
        "worker_cpu_us": worker_cpu / handled * 1e6,
        "server_cpu_us": server_cpu / handled * 1e6,
        "resident_mb": resident,
    }


def _wait_for_handlers(site: Site, jobs: int, groups: Sequence[Group]) -> float:
    """Until all have started, the time is up, or the workers have died; the processor time used before the first."""
    deadline = time.monotonic() + SECONDS_TO_START
    used: float | None = None
    while site.probe.missing(jobs):
        time.sleep(0.005)
        if used is None and site.probe.missing(jobs) < jobs:
            used, deadline = _cpu(groups), time.monotonic() + site.sizes.drain_cap_seconds
        if not any(group.alive for group in groups):
            raise Failed(f"the workers ended by themselves: see {site.system.name}.log")
        if time.monotonic() > deadline:
            break
    if used is None:
        raise Failed(f"no job started within {SECONDS_TO_START:.0f} s: see {site.system.name}.log")
    return used


def _cpu(groups: Sequence[Group]) -> float:
    return sum(group.cpu_seconds() for group in groups)


def _wait_until_settled(site: Site, last: int) -> int:
    """The moment at which the database knows of no unfinished job; `last` where there is none to ask."""
    question = site.system.unfinished
    if question is None:
        return last
    deadline = time.monotonic() + SECONDS_TO_SETTLE
    with site.connect() as conn:
        while conn.execute(question.encode()).fetchall()[0][0]:
            if time.monotonic() > deadline:
                raise Failed("jobs that ran were not finished in the database")
            time.sleep(0.002)
    return time.monotonic_ns()
