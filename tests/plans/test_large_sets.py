"""Hundreds of jobs settled at once, from a table that holds little else: each is gone through once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from tests.plans.explain import Watcher, offences
from tests.sessions import Session, query, session
from tests.verbs import Held, complete_all, enqueue_many, register, settle, worker_claim
from wakeful.testing import Database

SET = 500
SETS = 8

Verb = Callable[[Session, UUID, list[Held]], object]


def fail_all(db: Session, worker: UUID, held: list[Held]) -> object:
    return settle(db, worker, [(one.id, one.epoch, "failed", "1 hour") for one in held])


def extend_all(db: Session, worker: UUID, held: list[Held]) -> object:
    return query(
        db,
        "select * from wakeful.extend_1(%s, %s, %s::bigint[], array_fill(interval '1 hour', array[%s]))",
        *(worker, [one.id for one in held], [one.epoch for one in held], len(held)),
    )


@pytest.fixture
def watcher(database: Database) -> Iterator[Watcher]:
    with session(database.dsn) as conn:
        yield Watcher(conn)


@pytest.mark.parametrize("verb", [complete_all, fail_all, extend_all])
def test_a_large_set_is_gone_through_once(watcher: Watcher, verb: Verb) -> None:
    db = watcher.db
    worker = register(db)
    enqueue_many(db, [{"task": "t"} for _ in range(SET * SETS)])
    running, _ = worker_claim(db, worker, want=SET * SETS)
    found = []
    for start in range(0, SET * SETS, SET):
        plans = watcher.watch(lambda conn, start=start: verb(conn, worker, running[start : start + SET]))  # type: ignore[misc]
        found += offences(plans, 2 * SET)
    assert found == []
