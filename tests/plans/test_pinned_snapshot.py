"""While a long transaction keeps vacuum from removing anything, a claim behind its horizon stays as cheap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from tests.effort import times
from tests.plans.explain import Watcher
from tests.sessions import Session, call, query, session
from tests.verbs import Held, enqueue_many, position, register, worker_claim
from wakeful.testing import Database

ROUNDS = times(25)
BATCH = 100


@pytest.fixture
def watcher(database: Database) -> Iterator[Watcher]:
    with session(database.dsn) as conn, session(database.dsn) as pin:
        watcher = Watcher(conn)
        pin.execute("begin isolation level repeatable read")
        query(pin, "select count(*) from wakeful.job")
        yield watcher


def round_of(watcher: Watcher, worker: UUID, tasks: Sequence[str], horizon: dict[str, Any]) -> tuple[list[Held], int]:
    """Enqueue, claim and complete a batch; what was taken, and the pages that choosing it touched."""
    db: Session = watcher.db
    enqueue_many(db, [{"task": "t"} for _ in range(BATCH)])
    taken: list[Held] = []

    def claim(conn: Session) -> None:
        taken.extend(worker_claim(conn, worker, tasks=tasks, want=BATCH, tend=False, **horizon)[0])

    # One range is read and locked in one statement; of several, the first in line are found first.
    mark = "limit choose.want\n            for update" if len(tasks) == 1 else "with candidate"
    [choosing] = [plan for plan in watcher.watch(claim) if mark in plan.statement]
    assert len(taken) == BATCH
    ids, epochs = [held.id for held in taken], [held.epoch for held in taken]
    call(db, "complete_1", worker_id=worker, ids=ids, epochs=epochs)
    return taken, choosing.buffers


@pytest.mark.parametrize("tasks", [["t"], ["t", "u"]])
def test_a_claim_behind_its_horizon_touches_a_flat_number_of_pages(watcher: Watcher, tasks: list[str]) -> None:
    worker, touched = register(watcher.db), []
    horizon: dict[str, Any] = {}
    for _ in range(ROUNDS):
        taken, buffers = round_of(watcher, worker, tasks, horizon)
        rank, ready_at, id = position(taken[-1].row)
        horizon = {"h_ranks": [rank], "h_ready_ats": [ready_at], "h_ids": [id]}
        touched.append(buffers)
    assert min(touched[-5:]) - min(touched[3:8]) < 10, touched


@pytest.mark.parametrize("tasks", [["t"], ["t", "u"]])
def test_a_claim_from_the_start_walks_over_what_vacuum_could_not_remove(watcher: Watcher, tasks: list[str]) -> None:
    """Else the test above would prove nothing."""
    worker = register(watcher.db)
    touched = [round_of(watcher, worker, tasks, {})[1] for _ in range(ROUNDS)]
    # A page or two more for each hundred that were taken before.
    assert min(touched[-5:]) - min(touched[3:8]) > 2 * ROUNDS, touched
