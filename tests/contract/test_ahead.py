"""Ahead of the disk: a worker is woken by a commit that has not reached it, and nobody else relies on it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.sessions import Session, query, scalar, value
from tests.verbs import complete, enqueue, enqueue_one, fall_asleep, job, started
from wakeful.values.identity import new_id


def test_a_job_that_wakes_somebody_says_that_it_is_ahead(db: Session) -> None:
    fall_asleep(db)
    id = new_id()
    assert enqueue_one(db, id=id) == [str(id), "ahead"]
    assert job(db, id)["state"] == "ready"


def test_a_job_for_which_nobody_is_woken_reaches_the_disk_by_itself(db: Session) -> None:
    assert enqueue_one(db) is None


@pytest.mark.parametrize(
    "options",
    [{"dedup_key": "k"}, {"fresh": False}, {"alone": False}, {"poke": False}],
    ids=["others may join it", "it may have been sent before", "its transaction goes on", "nobody is to be woken"],
)
def test_what_somebody_else_may_rely_on_is_not_ahead(db: Session, options: dict[str, Any]) -> None:
    fall_asleep(db)
    assert enqueue_one(db, **options) is None


def test_the_callers_next_commit_waits_for_the_disk_as_ever(db: Session) -> None:
    fall_asleep(db)
    db.execute("set synchronous_commit = on")
    enqueue_one(db)
    assert scalar(db, "show synchronous_commit") == "on"


def test_reaching_the_disk_takes_with_it_all_that_was_committed_before(db: Session) -> None:
    fall_asleep(db)
    db.execute("set synchronous_commit = on")
    for _ in range(20):
        id, action = enqueue_one(db)
        assert action == "ahead"
        written = scalar(db, "select pg_current_wal_insert_lsn()")
        assert value(db, "reach_disk_1", ids=[UUID(id)])
        [row] = query(db, "select pg_current_wal_flush_lsn() >= %s::pg_lsn as reached", written)
        assert row["reached"]


def test_a_job_that_is_over_has_reached_the_disk_too(db: Session) -> None:
    completed, live = started(db), enqueue(db)
    complete(db, completed)
    assert value(db, "reach_disk_1", ids=[completed.id, live])


def test_a_job_that_is_not_there_has_not_reached_the_disk(db: Session) -> None:
    """The server has crashed since, or another one has taken its place."""
    held = started(db)
    complete(db, held)
    assert value(db, "reach_disk_1", ids=[new_id()]) is False
    assert value(db, "reach_disk_1", ids=[enqueue(db), held.id, new_id()]) is False
