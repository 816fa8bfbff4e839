"""The fleet's numbers, from the facts that the database tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wakeful.values.family import Family, Samples
from wakeful.values.report import Depth

Facts = Mapping[str, Any]
BREAKER_STATES = {"closed": 0.0, "half_open": 1.0, "open": 2.0}


def fleet_families(depths: Sequence[Depth], health: Facts, vitals: Facts) -> Iterator[Family]:
    """What is the same whichever process is asked."""
    yield _by_task("wakeful_job_queue_depth", "Ready jobs that wait.", {one.task: one.ready for one in depths})
    yield _by_task("wakeful_job_running", "Jobs that run.", {one.task: one.running for one in depths})
    ages = {one.task: one.oldest_seconds for one in depths}
    yield _by_task("wakeful_job_oldest_ready_seconds", "For how long the oldest ready job waits.", ages)
    yield _number("wakeful_workers_alive", "Workers whose lease holds.", health["workers_alive"])
    yield _number("wakeful_dead_letters", "Dead letters that nobody has seen.", health["dead_unacknowledged"])
    yield _number("wakeful_stuck_jobs", "Jobs that run for more than an hour.", len(health["stuck"]))
    yield _number("wakeful_orphan_tasks", "Tasks with ready jobs that no worker serves.", len(health["orphans"]))
    states: Samples = {(one["name"],): BREAKER_STATES[one["state"]] for one in health.get("breakers", ())}
    yield Family("wakeful_breaker_state", "gauge", "0 closed, 1 half open, 2 open.", ("breaker",), states)
    dead: Samples = {(name,): float(one["dead"]) for name, one in vitals["tables"].items()}
    yield Family("wakeful_dead_tuples", "gauge", "Dead rows that vacuum has not removed.", ("table",), dead)
    holder = vitals["oldest_snapshot"]
    held = 0.0 if holder is None else float(holder["seconds"])
    yield _number("wakeful_oldest_snapshot_seconds", "How long the oldest snapshot is held.", held)
    yield _number("wakeful_notify_queue_usage", "How full the NOTIFY queue is, from 0 to 1.", vitals["notify_queue"])


def _by_task(name: str, text: str, values: Mapping[str, float]) -> Family:
    return Family(name, "gauge", text, ("task",), {(task,): float(value) for task, value in values.items()})


def _number(name: str, text: str, value: float) -> Family:
    return Family(name, "gauge", text, (), {(): float(value)})
