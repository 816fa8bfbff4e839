"""How long an operator waits for an answer when there is much to look at."""

from __future__ import annotations

import time
from datetime import timedelta

from benchmarks.bench import Bench
from benchmarks.measurement import Figure, Measurement, Values, ours
from benchmarks.ours.crowd import add_dead, add_finished, add_ready
from benchmarks.system import System
from wakeful.database.fetch import fetch
from wakeful.statements import inspect, metrics, read, read_fleet
from wakeful.statements.read import JobFilter
from wakeful.statements.statement import Statement

DEAD_SHARE = 100


def reading(bench: Bench, system: System) -> Values:
    """The statements of reading commands, each asked once on a fresh connection, beside millions of finished jobs."""
    finished = int(max(bench.sizes.history_millions) * 1e6)
    seconds: dict[str, float] = {}
    with bench.site(system) as site:
        with site.connect() as conn:
            add_finished(conn, finished)
            add_dead(conn, finished // DEAD_SHARE)
            add_ready(conn, 1000)
        site.settle()
        with site.connect() as conn:
            [found] = fetch(conn, read.jobs(JobFilter(states=["completed"]), limit=1))
        questions: dict[str, Statement[object]] = {
            "stats": read.stats(),
            "jobs_list": read.jobs(JobFilter(), limit=50),
            "jobs_list_of_a_task": read.jobs(JobFilter(task="noop", states=["completed"]), limit=50),
            "dead_list": read_fleet.dead_letters(JobFilter(), acknowledged=False, limit=50),
            "explain": inspect.explain(found.id),
            "health": inspect.health(timedelta(hours=1)),
            "vitals": inspect.vitals(),
            "by_task": metrics.by_task(timedelta(hours=1)),
            "queues": read_fleet.queues(),
        }
        for name, question in questions.items():
            with site.connect() as conn:
                began = time.perf_counter()
                fetch(conn, question)
                seconds[name] = time.perf_counter() - began
    return {"slowest": max(seconds.values()), **seconds}


READING = Measurement(
    "reading",
    "Reading commands in a crowd",
    (
        Figure("slowest", "the slowest", "s", "lower"),
        *(
            Figure(key, title, "s", "lower")
            for key, title in (
                ("stats", "stats"),
                ("jobs_list", "jobs list"),
                ("jobs_list_of_a_task", "jobs list of a task"),
                ("dead_list", "dead list"),
                ("explain", "explain"),
                ("health", "health"),
                ("vitals", "doctor's vitals"),
                ("by_task", "stats by task"),
                ("queues", "queues list"),
            )
        ),
    ),
    reading,
    ours,
    repeated=False,
)
