"""A connection that is lost while a job is enqueued: one job comes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.db.cut_link import CutLink, Moment
from tests.sessions import Session, query, scalar, session, until
from tests.verbs import claim, complete, fall_asleep
from wakeful import DatabaseUnavailable, Wakeful
from wakeful.produce.delivery import SENDS
from wakeful.testing import Database

each_moment = pytest.mark.parametrize("moment", ["before it is sent", "before its answer"])


@pytest.fixture
def link(database: Database) -> Iterator[CutLink]:
    made = CutLink(database.dsn)
    yield made
    made.close()


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@each_moment
def test_one_job_comes_of_a_call_whose_connection_is_lost(link: CutLink, db: Session, moment: Moment) -> None:
    with Wakeful(link.dsn) as app:
        app.enqueue("warm")
        link.cut(moment, b"marked")
        id = app.enqueue("t", {"text": "marked"})
        assert link.cuts == 1
        assert id is not None
        assert id.action == "inserted"
        assert [row["id"] for row in jobs_of(db, "t")] == [id]


@each_moment
async def test_one_job_comes_of_each_call_that_shared_the_lost_flush(
    link: CutLink, db: Session, moment: Moment
) -> None:
    async with Wakeful(link.dsn) as app:
        await app.aenqueue("warm")
        link.cut(moment, b"marked")
        calls = [app.aenqueue("t", {"text": "marked", "number": number}) for number in range(50)]
        ids = await asyncio.gather(*calls)
        assert link.cuts == 1
        assert {row["id"] for row in jobs_of(db, "t")} == set(ids)
        assert len(set(ids)) == 50
        assert {id.action for id in ids if id is not None} == {"inserted"}


@each_moment
def test_one_job_comes_of_a_keyed_call_whose_connection_is_lost(link: CutLink, db: Session, moment: Moment) -> None:
    with Wakeful(link.dsn) as app:
        app.enqueue("warm")
        link.cut(moment, b"marked")
        # Had the lost one not been known again, `raise` would take it for a twin.
        id = app.enqueue("t", {"text": "marked"}, dedup_key="k", dedup="raise")
        assert [row["id"] for row in jobs_of(db, "t")] == [id]


@each_moment
@pytest.mark.parametrize("mark", [b"number 0", b"number 7000", b"COMMIT"])
async def test_all_jobs_of_many_come_once_when_the_connection_is_lost(
    link: CutLink, db: Session, moment: Moment, mark: bytes
) -> None:
    async with Wakeful(link.dsn) as app:

        @app.task(name="t")
        def note(text: str) -> None: ...

        await note.aenqueue("warm")
        link.cut(moment, mark)
        texts = [f"number {number}" for number in range(12_000)]
        ids = await note.aenqueue_many({"text": text} for text in texts)
        assert link.cuts == 1
        found = {row["id"]: row["payload"]["text"] for row in jobs_of(db, "t")}
        assert [found[id] for id in ids if id is not None] == texts
        assert len(found) == 12_001


def test_a_job_that_finished_before_it_was_sent_again_is_not_made_again(link: CutLink, db: Session) -> None:
    """The worker is quicker than the producer's second try."""
    with Wakeful(link.dsn) as app:
        app.enqueue("warm")
        link.cut("before its answer", b"marked")
        worked = threading.Thread(target=work_one, args=[db])
        worked.start()
        id = app.enqueue("t", {"text": "marked"})
        worked.join()
        assert link.cuts == 1
        assert [(row["id"], row["state"]) for row in jobs_of(db, "t")] == [(id, "completed")]


@each_moment
def test_a_call_that_woke_somebody_is_answered_only_when_it_has_reached_the_disk(
    link: CutLink, db: Session, moment: Moment
) -> None:
    with Wakeful(link.dsn) as app:
        app.enqueue("warm")
        fall_asleep(db)
        link.cut(moment, b"reach_disk", times=2)
        id = app.enqueue("t")
        # The second time for the job that was found there when it was sent again.
        assert link.cuts == 2
        assert id is not None
        assert id.action == "inserted"
        assert [row["id"] for row in jobs_of(db, "t")] == [id]


def test_callers_are_told_when_the_link_stays_cut(link: CutLink, db: Session) -> None:
    with Wakeful(link.dsn) as app:
        app.enqueue("warm")
        link.cut("before it is sent", b"marked", times=1000)
        with pytest.raises(DatabaseUnavailable):
            app.enqueue("t", {"text": "marked"})
        assert link.cuts == SENDS
        assert jobs_of(db, "t") == []
        # The next call finds its way.
        assert app.enqueue("t", {"text": "other"}) is not None


async def test_no_caller_notices_that_backends_are_terminated(database: Database, db: Session) -> None:
    async with Wakeful(database.dsn) as app:
        await app.aenqueue("warm")
        ids = []
        for _ in range(20):
            ended = asyncio.to_thread(end_backends, db)
            made = await asyncio.gather(*(app.aenqueue("t", {"n": n}) for n in range(20)), ended)
            ids += made[:-1]
        assert {row["id"] for row in jobs_of(db, "t")} == set(ids)
        assert len(set(ids)) == 400


def jobs_of(db: Session, task: str) -> list[dict[str, Any]]:
    return query(db, "select id, state, payload from wakeful.jobs where task = %s order by id", task)


def work_one(db: Session) -> None:
    """Complete the first job of the task t as soon as it is there."""
    until(lambda: bool(scalar(db, "select count(*) from wakeful.job where task = 't'")))
    [held] = claim(db, tasks=["t"])
    complete(db, held)


def end_backends(db: Session) -> None:
    """Terminate the sessions of apps on this database."""
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'wakeful'"
    )
