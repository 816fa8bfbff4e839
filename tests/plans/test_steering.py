"""Limits, breakers and fair shares with long lines behind them, and plans from when there were none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID

import pytest

from tests.effort import times
from tests.plans.explain import Watcher, offences
from tests.sessions import Session, session, value
from tests.verbs import Held, complete, enqueue, register, worker_claim
from wakeful.testing import Database

LINE = times(20_000)
TASKS = ("keyed", "whole", "rated", "broken", "fair")

# Parked behind one key, in line behind gates that are shut, in line of a thousand tenants.
_LINES = (
    "'default', 'keyed', 'a', 'task keyed key a', null",
    "'default', 'whole', 'a', null, null",
    "'default', 'rated', 'a', null, null",
    "'default', 'broken', 'a', null, null",
    "'fair', 'fair', 'tenant ' || mod(n, 1000), null, timestamptz '2000-01-02' + (n / 1000) * interval '1 millisecond'",
)
_LOAD = """
insert into wakeful.job (queue, task, tenant, limit_key, turn, id, state, rank, max_attempts, pokes, run_at, ready_at,
    created_at, updated_at, correlation_id, payload)
select {}, gen_random_uuid(), 1, 0, 5, false, now(), now(), now(), now(), gen_random_uuid(), '{{}}'
from generate_series(1, {}) n
"""


@pytest.fixture
def worker(database: Database) -> Iterator[tuple[Watcher, UUID]]:
    with session(database.dsn) as old, session(database.dsn) as loader:
        value(old, "set_task_policy", task="keyed", concurrency=2, key="tenant")
        value(old, "set_task_policy", task="whole", concurrency=2)
        value(old, "set_task_policy", task="rated", rate=1000, burst=3)
        value(old, "set_task_policy", task="broken", breaker="smtp")
        value(old, "set_queue_policy", queue="fair", fair=True)
        me = register(old, tasks=TASKS)
        for _ in range(7):
            act(old, me)
        loader.execute("vacuum analyze wakeful.job")
        act(old, me)
        watcher = Watcher(old)
        for line in _LINES:
            loader.execute(_LOAD.format(line, LINE).encode())
        value(loader, "trip_breaker", name="smtp")
        yield watcher, me


def act(db: Session, me: UUID) -> None:
    """What a worker does all day: with one of each, and leaving nothing."""
    for task in TASKS:
        enqueue(db, task, tenant="a", queue="fair" if task == "fair" else None)
    for held in claimed(db, me):
        complete(db, held)


def claimed(db: Session, me: UUID) -> list[Held]:
    held, _ = worker_claim(db, me, queues=["default", "fair"], tasks=TASKS, want=10)
    return held


def test_no_claim_settlement_or_enqueue_walks_over_what_waits(worker: tuple[Watcher, UUID]) -> None:
    watcher, me = worker
    found: list[str] = []

    def watch(one: Callable[[Session], object]) -> None:
        found.extend(offences(watcher.watch(one), 300))

    running: list[Held] = []
    for _ in range(3):
        watch(lambda db: running.extend(claimed(db, me)))
    assert {held.row["task"] for held in running} >= {"whole", "rated", "fair"}
    for held in running:
        watch(partial(complete, held=held))
    watch(lambda db: running.extend(claimed(db, me)))
    for tenant in ("a", "tenant 7", "new"):
        watch(partial(enqueue, task="fair", queue="fair", tenant=tenant))
        watch(partial(enqueue, task="keyed", tenant=tenant))
    watch(lambda db: running.extend(claimed(db, me)))
    assert found == []
