"""Seed 004, the jobs repository and its tick: what they promised, `app.queue` keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.sessions import Session, query, scalar, session, shift_clock
from wakeful.app import Wakeful
from wakeful.queue import Queue
from wakeful.testing import Database
from wakeful.values.dedup import dedup_key
from wakeful.values.retryable import backoff, can_retry


@pytest.fixture
async def queue(database: Database) -> AsyncIterator[Queue]:
    async with Wakeful(database.dsn) as app:
        yield app.queue


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


async def test_enqueue_takes_type_organisation_payload_and_time(queue: Queue, db: Session) -> None:
    run_at = datetime.now(UTC) + timedelta(hours=1)
    id = await queue.aenqueue("vault.index", {"document": 7}, tenant="org-1", run_at=run_at)
    [row] = query(db, "select * from wakeful.jobs")
    assert (row["id"], row["task"], row["tenant"], row["payload"]) == (id, "vault.index", "org-1", {"document": 7})
    assert (row["state"], row["run_at"], row["attempt"]) == ("scheduled", run_at, 0)
    assert row["updated_at"] >= row["created_at"]


async def test_a_queued_job_waits_for_its_time(queue: Queue, db: Session) -> None:
    await queue.aenqueue("t", {}, delay="10m")
    assert await queue.aclaim("t") == []
    shift_clock(db, "11 minutes")
    assert len(await queue.aclaim("t")) == 1


async def test_mark_success(queue: Queue, db: Session) -> None:
    await queue.aenqueue("t", {})
    [job] = await queue.aclaim("t")
    assert scalar(db, "select state from wakeful.jobs") == "running"
    await queue.amark_completed(job.id)
    assert scalar(db, "select state from wakeful.jobs") == "completed"


async def test_mark_failure_queues_it_again_with_a_growing_wait(queue: Queue, db: Session) -> None:
    await queue.aenqueue("t", {})
    for attempts, seconds in ((1, 1), (2, 2), (3, 4), (4, 8)):
        [job] = await queue.aclaim("t")
        assert job.attempt == attempts
        assert can_retry("failed", job.attempt, job.max_attempts)
        await queue.amark_failed(job.id, f"failure {attempts}", retry_in=backoff(job.attempt))
        [row] = query(db, "select *, run_at - updated_at as wait from wakeful.jobs")
        assert (row["state"], row["last_error_message"]) == ("scheduled", f"failure {attempts}")
        assert row["wait"] == timedelta(seconds=seconds)
        shift_clock(db, f"{seconds} seconds")
    [job] = await queue.aclaim("t")
    assert not can_retry("failed", job.attempt, job.max_attempts)
    await queue.amark_failed(job.id, "failure 5")
    [row] = query(db, "select * from wakeful.jobs")
    assert (row["state"], row["last_error_message"]) == ("dead", "failure 5")


async def test_noisy_jobs_are_deduplicated_by_a_deterministic_key(queue: Queue, db: Session) -> None:
    for payload in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        await queue.aenqueue("t", payload, tenant="org-1", dedup_key=dedup_key("t", "org-1", payload))
    assert scalar(db, "select count(*) from wakeful.jobs") == 1
    assert scalar(db, "select dedup_key from wakeful.jobs") == 't::org-1::{"a":1,"b":2}'


async def test_a_tick_claims_at_most_so_many_and_settles_each(queue: Queue) -> None:
    for number in range(5):
        await queue.aenqueue("t", {"number": number})
    jobs = await queue.aclaim("t", limit=3)
    assert len(jobs) == 3
    for job in jobs:
        if job.payload["number"] == 1:
            await queue.amark_failed(job, ValueError("odd"))
        else:
            await queue.amark_completed(job)
    assert await queue.aget_stats() == {
        "pending": 3,
        "processing": 0,
        "completed": 2,
        "failed": 0,
        "cancelled": 0,
        "total": 5,
    }
