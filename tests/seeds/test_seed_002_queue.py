"""Seed 002, the job queue adapter: what it promised of its queue, `app.queue` keeps."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from tests.sessions import Session, query, session, shift_clock
from wakeful.app import Wakeful
from wakeful.queue import ClaimedJob, Queue
from wakeful.testing import Database
from wakeful.values.retry import Fixed


@pytest.fixture
def queue(database: Database) -> Iterator[Queue]:
    with Wakeful(database.dsn) as app:
        app.task(name="implicate_refresh", retry=Fixed(0))(lambda entity_ids: None)
        yield app.queue


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


def enqueued(queue: Queue, max_retries: int = 3) -> UUID:
    id = queue.enqueue(
        job_type="implicate_refresh", payload={"entity_ids": ["entity-1", "entity-2"]}, max_retries=max_retries
    )
    assert id is not None
    return id


def row(db: Session, id: UUID) -> dict[str, object]:
    [found] = query(db, "select * from wakeful.jobs where id = %s", id)
    return found


def test_enqueue_creates_a_job_with_one_start_more_than_retries(queue: Queue, db: Session) -> None:
    found = row(db, enqueued(queue))
    assert found["task"] == "implicate_refresh"
    assert found["payload"] == {"entity_ids": ["entity-1", "entity-2"]}
    assert (found["state"], found["attempt"], found["max_attempts"]) == ("ready", 0, 4)


def test_dequeue_fetches_pending_jobs_of_a_type_up_to_a_limit(queue: Queue, db: Session) -> None:
    ids = [enqueued(queue) for _ in range(3)]
    queue.enqueue(job_type="another", payload={})
    jobs = queue.dequeue(job_type="implicate_refresh", limit=2)
    assert [job.id for job in jobs] == ids[:2]
    assert jobs[0].payload["entity_ids"] == ["entity-1", "entity-2"]
    assert row(db, ids[0])["state"] == "running"
    assert row(db, ids[0])["started_at"] is not None
    assert len(queue.dequeue(limit=10)) == 2


def test_mark_completed_updates_the_job(queue: Queue, db: Session) -> None:
    id = enqueued(queue)
    queue.dequeue()
    queue.mark_completed(id, result={"processed": 2})
    found = row(db, id)
    assert (found["state"], found["result"]) == ("completed", {"processed": 2})
    assert found["finished_at"] is not None


def test_mark_failed_with_retry_sets_it_back_to_pending(queue: Queue, db: Session) -> None:
    id = enqueued(queue)
    [job] = queue.dequeue()
    queue.mark_failed(job.id, error="timeout", retry=True)
    found = row(db, id)
    assert (found["state"], found["attempt"], found["last_error_message"]) == ("ready", 1, "timeout")
    assert queue.get_stats()["pending"] == 1


def test_mark_failed_when_max_retries_are_reached_is_permanent(queue: Queue, db: Session) -> None:
    id = enqueued(queue, max_retries=3)
    for start in (1, 2, 3, 4):
        [job] = queue.dequeue()
        assert (job.id, job.attempt) == (id, start)
        queue.mark_failed(job, "again")
    assert queue.dequeue() == []
    assert row(db, id)["state"] == "dead"
    assert queue.get_stats()["failed"] == 1


def test_mark_failed_without_retry_is_permanent_at_once(queue: Queue, db: Session) -> None:
    id = enqueued(queue)
    queue.dequeue()
    queue.mark_failed(id, "bad input", retry=False)
    assert row(db, id)["state"] == "dead"


def test_get_stats_returns_counts_by_status(queue: Queue) -> None:
    for _ in range(4):
        enqueued(queue)
    first, second, _ = queue.dequeue(limit=3)
    queue.mark_completed(first)
    queue.mark_failed(second, "x", retry=False)
    assert queue.get_stats("implicate_refresh") == {
        "pending": 1,
        "processing": 1,
        "completed": 1,
        "failed": 1,
        "cancelled": 0,
        "total": 4,
    }


def test_several_workers_never_claim_the_same_job(queue: Queue) -> None:
    ids = {enqueued(queue) for _ in range(30)}
    with ThreadPoolExecutor(6) as pool:
        batches = list(pool.map(lambda _: queue.dequeue(limit=5), range(12)))
    taken = [job.id for batch in batches for job in batch]
    assert len(taken) == len(ids)
    assert set(taken) == ids


def test_a_batch_is_processed_and_summed_up(queue: Queue) -> None:
    """The loop that the seed wrote by hand: take a batch, try each, mark each, never crash."""
    for number in range(5):
        queue.enqueue(job_type="implicate_refresh", payload={"entity_ids": [f"e-{number}"]}, max_retries=0)

    def process(job: ClaimedJob) -> int:
        if job.payload["entity_ids"] == ["e-3"]:
            raise ConnectionError("timeout")
        return len(set(job.payload["entity_ids"]))

    succeeded = failed = 0
    for job in queue.dequeue(job_type="implicate_refresh", limit=10):
        try:
            queue.mark_completed(job, {"upserted": process(job)})
            succeeded += 1
        except ConnectionError as error:
            queue.mark_failed(job, error)
            failed += 1
    assert (succeeded, failed) == (4, 1)
    counts = queue.get_stats()
    assert (counts["completed"], counts["failed"]) == (4, 1)


def test_old_completed_jobs_are_cleaned_up(queue: Queue, db: Session) -> None:
    enqueued(queue)
    [job] = queue.dequeue()
    queue.mark_completed(job)
    assert queue.cleanup_old_jobs(days=7, status="completed") == 0
    shift_clock(db, "8 days")
    assert queue.cleanup_old_jobs(days=7, status="completed") == 1
    assert queue.get_stats()["total"] == 0
