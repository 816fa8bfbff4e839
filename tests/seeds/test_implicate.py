"""Seed 002, the implicate refresh: the nineteen tests of its document, on a real database, and its wishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest

from examples.implicate.builder import SCHEMA, ImplicateBuilder
from examples.implicate.ingest import TASK, commit_analysis, enqueue_implicate_refresh
from examples.implicate.refresh import ImplicateRefreshWorker
from tests.acceptance.processes import wait_until
from tests.sessions import Session, query, scalar, session
from wakeful import Wakeful
from wakeful.testing import Database


class Scripted(ImplicateBuilder):
    """Fails at chosen entities, as often as it is told to."""

    failures: dict[str, int]

    def embed(self, id: str, text: str) -> list[float]:
        if self.failures.get(id, 0) > 0:
            self.failures[id] -= 1
            raise ConnectionError(f"no answer for {id}")
        return super().embed(id, text)


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        conn.execute(SCHEMA)
        yield conn


@pytest.fixture
def app(database: Database, db: Session) -> Iterator[Wakeful]:
    with Wakeful(database.dsn) as made:
        yield made


@pytest.fixture
def builder(app: Wakeful) -> Scripted:
    made = Scripted(app)
    made.failures = {}
    return made


@pytest.fixture
def worker(app: Wakeful, builder: Scripted) -> ImplicateRefreshWorker:
    return ImplicateRefreshWorker(app, builder, enabled=True)


def entities(db: Session, count: int) -> list[str]:
    db.execute(
        "insert into entity select 'e' || lpad(n::text, 4, '0'), 'concept', 'text ' || n from generate_series(1, %s) n",
        [count],
    )
    return [f"e{number:04}" for number in range(1, count + 1)]


def enqueued(app: Wakeful, ids: list[str], max_retries: int = 3) -> UUID:
    job_id = app.queue.enqueue(job_type=TASK, payload={"entity_ids": ids}, max_retries=max_retries)
    assert job_id is not None
    return job_id


def row(db: Session, id: UUID) -> dict[str, object]:
    [found] = query(db, "select * from wakeful.jobs where id = %s", id)
    return found


def upserts(db: Session) -> list[int]:
    return [one["upserts"] for one in query(db, "select upserts from implicate_vector order by entity_id")]


class TestQueueAdapter:
    def test_enqueue_creates_job(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        found = row(db, enqueued(app, ["a", "b"]))
        assert (found["task"], found["payload"], found["state"]) == (TASK, {"entity_ids": ["a", "b"]}, "ready")

    def test_dequeue_fetches_pending_jobs(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        ids = [enqueued(app, []) for _ in range(3)]
        claimed = app.queue.dequeue(job_type=TASK, limit=2)
        assert [job.id for job in claimed] == ids[:2]
        assert row(db, ids[0])["state"] == "running"
        assert len(app.queue.dequeue(limit=10)) == 1

    def test_mark_completed_updates_job(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        id = enqueued(app, [])
        app.queue.dequeue()
        app.queue.mark_completed(id, result={"upserted": 2})
        assert (row(db, id)["state"], row(db, id)["result"]) == ("completed", {"upserted": 2})

    def test_mark_failed_with_retry(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        id = enqueued(app, [])
        app.queue.dequeue()
        app.queue.mark_failed(id, "timeout", retry=True)
        assert (row(db, id)["state"], row(db, id)["last_error_message"]) == ("ready", "timeout")

    def test_mark_failed_when_max_retries_reached(
        self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session
    ) -> None:
        id = enqueued(app, [], max_retries=1)
        for _ in range(2):
            [job] = app.queue.dequeue()
            app.queue.mark_failed(job, "again")
        assert row(db, id)["state"] == "dead"
        assert app.queue.dequeue() == []

    def test_get_stats_returns_job_counts(self, app: Wakeful, worker: ImplicateRefreshWorker) -> None:
        for _ in range(4):
            enqueued(app, [])
        done, failed, _ = app.queue.dequeue(limit=3)
        app.queue.mark_completed(done)
        app.queue.mark_failed(failed, "x", retry=False)
        stats = app.queue.get_stats(job_type=TASK)
        assert [stats[name] for name in ("pending", "processing", "completed", "failed", "total")] == [1, 1, 1, 1, 4]


class TestImplicateRefreshWorker:
    def test_process_job_success(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        id = enqueued(app, entities(db, 3))
        worker.run_once()
        result = row(db, id)["result"]
        assert isinstance(result, dict)
        assert (result["entity_ids_processed"], result["entity_ids_upserted"], result["success"]) == (3, 3, True)
        assert upserts(db) == [1, 1, 1]

    def test_process_job_removes_duplicates(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        enqueued(app, entities(db, 2) * 3)
        worker.run_once()
        assert worker.metrics[0].entity_ids_requested == 2
        assert upserts(db) == [1, 1]

    def test_process_job_with_empty_entity_ids(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        id = enqueued(app, [])
        assert worker.run_once()["jobs_succeeded"] == 1
        assert (row(db, id)["state"], worker.metrics[0].entity_ids_processed) == ("completed", 0)

    def test_process_job_with_errors(
        self, app: Wakeful, worker: ImplicateRefreshWorker, builder: Scripted, db: Session
    ) -> None:
        id = enqueued(app, entities(db, 2))
        builder.failures["e0001"] = 1
        worker.run_once(job_limit=1)
        assert (row(db, id)["state"], row(db, id)["last_error_message"]) == ("ready", "no answer for e0001")
        assert worker.metrics[0].errors == ["no answer for e0001"]

    def test_run_once_with_no_jobs(self, worker: ImplicateRefreshWorker) -> None:
        assert set(worker.run_once().values()) == {0}

    def test_run_once_processes_jobs(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        one, two, three = entities(db, 3)
        for ids in ([one], [two], [three]):
            enqueued(app, ids)
        assert worker.run_once(job_limit=2)["jobs_succeeded"] == 2
        assert worker.run_once(job_limit=2)["jobs_succeeded"] == 1
        assert app.queue.get_stats(TASK)["completed"] == 3

    def test_run_once_marks_failed_jobs(
        self, app: Wakeful, worker: ImplicateRefreshWorker, builder: Scripted, db: Session
    ) -> None:
        one, two = entities(db, 2)
        enqueued(app, [one], max_retries=0)
        enqueued(app, [two])
        builder.failures[one] = 1
        told = worker.run_once()
        assert (told["jobs_processed"], told["jobs_succeeded"], told["jobs_failed"]) == (2, 1, 1)
        assert app.queue.get_stats(TASK)["failed"] == 1

    def test_get_metrics_summary(
        self, app: Wakeful, worker: ImplicateRefreshWorker, builder: Scripted, db: Session
    ) -> None:
        ids = entities(db, 4)
        builder.failures[ids[0]] = 1
        enqueued(app, ids[:2])
        enqueued(app, ids[2:])
        worker.run_once()
        summary = worker.get_metrics_summary()
        assert (summary["total_jobs"], summary["successful_jobs"], summary["failed_jobs"]) == (3, 2, 1)
        assert summary["success_rate"] == pytest.approx(2 / 3)
        assert (summary["total_errors"], summary["total_entities_upserted"]) == (1, 4)
        assert summary["average_duration"] > 0


class TestIdempotency:
    def test_same_entity_ids_produce_same_result(
        self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session
    ) -> None:
        ids = entities(db, 3)
        enqueued(app, ids)
        worker.run_once()
        before = query(db, "select entity_id, embedding from implicate_vector order by 1")
        enqueued(app, list(reversed(ids)))
        worker.run_once()
        assert query(db, "select entity_id, embedding from implicate_vector order by 1") == before

    def test_duplicate_entity_ids_are_deduped(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        one, two = entities(db, 2)
        enqueued(app, [one, two, one, one])
        worker.run_once()
        assert worker.metrics[0].entity_ids_upserted == 2


class TestCountersAndMetrics:
    def test_metrics_track_processed_count(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        id = enqueued(app, [*entities(db, 60), "unknown"])
        worker.run_once()
        [metrics] = worker.metrics
        assert (metrics.entity_ids_requested, metrics.entity_ids_processed, metrics.entity_ids_found) == (61, 61, 60)
        assert scalar(db, "select counters from wakeful.jobs where id = %s", id) == {"upserted": 60}

    def test_metrics_track_errors(
        self, app: Wakeful, worker: ImplicateRefreshWorker, builder: Scripted, db: Session
    ) -> None:
        [one] = entities(db, 1)
        builder.failures[one] = 2
        enqueued(app, [one])
        worker.run_once()
        assert [len(metrics.errors) for metrics in worker.metrics] == [1, 1, 0]
        assert [metrics.success for metrics in worker.metrics] == [False, False, True]

    def test_summary_aggregates_metrics(self, app: Wakeful, worker: ImplicateRefreshWorker, db: Session) -> None:
        ids = entities(db, 10)
        for place in range(5):
            enqueued(app, ids[place * 2 : place * 2 + 2])
        worker.run_once()
        summary = worker.get_metrics_summary()
        assert (summary["total_jobs"], summary["success_rate"]) == (5, 1.0)
        assert (summary["total_entities_requested"], summary["total_entities_processed"]) == (10, 10)


def test_a_job_over_500_ids_that_fails_at_320_goes_on_from_there(
    app: Wakeful, worker: ImplicateRefreshWorker, builder: Scripted, db: Session
) -> None:
    ids = entities(db, 500)
    builder.failures[ids[319]] = 1
    id = enqueued(app, ids)
    worker.run_once(job_limit=1)
    assert worker.metrics[0].entity_ids_processed == 319
    assert (row(db, id)["state"], len(upserts(db))) == ("ready", 319)
    assert worker.run_once(job_limit=1)["entities_upserted"] == 181
    assert row(db, id)["state"] == "completed"
    assert upserts(db) == [1] * 500
    result = row(db, id)["result"]
    assert isinstance(result, dict)
    assert [result[f"entity_ids_{what}"] for what in ("requested", "found", "processed", "upserted")] == [500] * 4
    summary = worker.get_metrics_summary()
    assert summary["total_entities_processed"] == summary["total_entities_upserted"] == 500


def test_the_flag_is_off_until_it_is_switched_on(app: Wakeful, builder: Scripted, db: Session) -> None:
    ImplicateRefreshWorker(app, builder)
    assert enqueue_implicate_refresh(app, ["a"]) == 0
    db.execute("select wakeful.switch_task(%s, true)", [TASK])
    assert enqueue_implicate_refresh(app, ["a"]) == 1


def test_an_analysis_commits_its_entities_and_their_job_together(
    app: Wakeful, worker: ImplicateRefreshWorker, db: Session
) -> None:
    result = commit_analysis(app, {"x": "one", "y": "two"})
    assert (result.entity_ids, result.jobs_enqueued) == (["x", "y"], 1)
    assert worker.run_once()["entities_upserted"] == 2
    with pytest.raises(psycopg.errors.NotNullViolation):
        commit_analysis(app, {"z": "three", "without text": None})  # type: ignore[dict-item]
    assert (
        scalar(db, "select count(*) from entity where id = 'z'") == scalar(db, "select count(*) from wakeful.job") == 0
    )


@pytest.mark.parametrize("mode", ["once", "forever"])
def test_the_command_runs_once_and_for_ever(mode: str, app: Wakeful, database: Database, db: Session) -> None:
    ImplicateRefreshWorker(app, enabled=True)
    id = enqueued(app, entities(db, 2))
    command = [sys.executable, "-m", "examples.implicate.refresh", "--mode", mode, "--job-limit", "5"]
    environment = {**os.environ, "WAKEFUL_DSN": database.dsn}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: row(db, id)["state"] == "completed")
        if mode == "forever":
            process.send_signal(signal.SIGTERM)
        out, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    assert "INFO - Job" in log
    assert mode == "forever" or "'jobs_succeeded': 1" in out
