"""Leases are renewed in the background until a job is settled, by one thread for all of them."""

from __future__ import annotations

import logging
import threading
from datetime import datetime

import pytest

from tests.db.queues import CountingDatabase
from tests.sessions import Session, query, scalar, session, until
from tests.verbs import enqueue
from wakeful.app import Wakeful
from wakeful.database.session import Unanswered
from wakeful.queue import Queue, renewal
from wakeful.statements.statement import Statement
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable, StaleClaim

THREAD = "wakeful-queue-renewal"


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def lapses(db: Session) -> datetime:
    at = scalar(db, "select min(lease_expires_at) from wakeful.jobs where state = 'running'")
    assert isinstance(at, datetime)
    return at


def test_a_lease_is_renewed_until_the_job_is_settled(queue: Queue, db: Session) -> None:
    enqueue(db)
    [job] = queue.claim(lease=1.5)
    first = lapses(db)
    until(lambda: bool(scalar(db, "select wakeful.now() > %s", first)))
    assert query(db, "select * from wakeful.rescue()") == [{"rescue": 0}], "it was renewed before it lapsed"
    queue.mark_completed(job)
    assert not job.lost


async def test_a_lease_of_an_async_caller_is_renewed_too(queue: Queue, app: Wakeful, db: Session) -> None:
    enqueue(db)
    [job] = await queue.aclaim(lease=1.5)
    first = lapses(db)
    # The loop is blocked meanwhile, as a careless handler would block it.
    until(lambda: lapses(db) > first)
    await queue.amark_completed(job)
    await app.database.aclose()


def test_a_lease_is_left_alone_where_that_was_asked(queue: Queue, app: Wakeful, db: Session) -> None:
    enqueue(db)
    [job] = queue.claim(lease=0.3, renew=False)
    assert THREAD not in threads()
    until(lambda: scalar(db, "select wakeful.rescue()") == 1)
    [again] = queue.claim()
    assert again.attempt == 2
    with pytest.raises(StaleClaim):
        queue.mark_completed(job)
    queue.mark_completed(again.id)


def test_one_thread_renews_all_jobs_in_one_statement_and_ends_with_the_last_of_them(
    queue: Queue, app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "LINGER", 0.05)
    for _ in range(20):
        enqueue(db)
    jobs = queue.claim(limit=20, lease=1.5)
    assert [thread.name for thread in threading.enumerate()].count(THREAD) == 1
    assert isinstance(app.database, CountingDatabase)
    first = lapses(db)
    until(lambda: lapses(db) > first)
    assert app.database.renewals == 1
    for job in jobs[1:]:
        queue.mark_completed(job)
    assert THREAD in threads()
    queue.mark_completed(jobs[0])
    until(lambda: THREAD not in threads())


def test_a_shorter_lease_is_renewed_in_its_own_time(queue: Queue, db: Session) -> None:
    enqueue(db, "long")
    enqueue(db, "short")
    queue.claim("long")
    [short] = queue.claim("short", lease=1.5)
    first = lapses(db)
    until(lambda: lapses(db) > first)
    assert not short.lost


def test_a_lease_that_was_extended_by_hand_is_renewed_as_such(queue: Queue, db: Session) -> None:
    enqueue(db)
    [job] = queue.claim(lease="1h")
    queue.extend(job, 1.5)
    first = lapses(db)
    until(lambda: lapses(db) > first)
    queue.mark_completed(job)


def test_a_lost_lease_is_told_and_marked(
    queue: Queue, app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    enqueue(db)
    with caplog.at_level(logging.WARNING, "wakeful"):
        [job] = queue.claim(lease=0.9)
        # As if the process had been suspended: its lease lapses, and somebody else takes the job.
        with db.transaction():
            db.execute("update wakeful.job set lease_expires_at = wakeful.now() - interval '1 second'")
            assert scalar(db, "select wakeful.rescue()") == 1
        thief = Queue(app)
        [taken] = thief.claim()
        until(lambda: job.lost)
    assert "lease_lost" in caplog.text
    assert str(job.id) in caplog.text
    with pytest.raises(StaleClaim):
        queue.mark_completed(job)
    thief.mark_completed(taken)
    thief.close()


def test_a_row_that_someone_has_locked_is_renewed_a_little_later(
    queue: Queue, app: Wakeful, database: Database, db: Session
) -> None:
    enqueue(db)
    assert isinstance(app.database, CountingDatabase)
    counted = app.database
    [job] = queue.claim(lease=1.5)
    with session(database.dsn) as other, other.transaction():
        other.execute("select from wakeful.job for update")
        first, renewals = lapses(db), counted.renewals
        # The second is asked for when the first has been answered.
        until(lambda: counted.renewals >= renewals + 2)
        assert lapses(db) == first
    until(lambda: lapses(db) > first)
    assert not job.lost
    queue.mark_completed(job)


def test_a_renewal_that_fails_is_tried_again(
    queue: Queue, app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(db)
    [job] = queue.claim(lease=0.9)
    first, run = lapses(db), app.database.run
    failures: list[Statement[object]] = []

    def unreachable(statement: Statement[object]) -> object:
        if "extend_1" in statement.sql and len(failures) < 2:
            failures.append(statement)
            raise DatabaseUnavailable("The server has gone. Try again.")
        return run(statement)

    with caplog.at_level(logging.WARNING, "wakeful"):
        monkeypatch.setattr(queue._here()._renewal, "_run", unreachable)
        until(lambda: lapses(db) > first)
    assert "lease_renewal_failed: The server has gone." in caplog.text
    queue.mark_completed(job)


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_a_settlement_whose_answer_was_lost_is_asked_for_again(
    queue: Queue, app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    enqueue(db, max_attempts=1)
    [job] = queue.claim()
    run = app.database.run
    lost: list[Statement[object]] = []

    def unanswered(statement: Statement[object]) -> object:
        answer = run(statement)
        if not lost:
            lost.append(statement)
            raise Unanswered("The connection was lost.")
        return answer

    monkeypatch.setattr(app.database, "run", unanswered)
    if outcome == "completed":
        queue.mark_completed(job, 1)
    else:
        queue.mark_failed(job, "x")
    assert lost
    assert scalar(db, "select state from wakeful.jobs") == {"completed": "completed", "failed": "dead"}[outcome]
    with pytest.raises(StaleClaim):
        queue.mark_completed(job)
