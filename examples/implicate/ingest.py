"""Committing an analysis: its entities, and the job that refreshes their vectors, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wakeful import Wakeful

TASK = "implicate_refresh"
MAX_RETRIES = 3


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What an analysis has led to. `jobs_enqueued` is 0 while the flag is off."""

    entity_ids: list[str]
    jobs_enqueued: int


def commit_analysis(app: Wakeful, entities: Mapping[str, str]) -> CommitResult:
    """Store new entities (id → text) and enqueue their refresh: both are there after the commit, or neither."""
    with app.database.transaction() as conn:
        for id, text in entities.items():
            conn.execute("insert into entity values (%s, 'concept', %s) on conflict do nothing", [id, text])
        return CommitResult(list(entities), enqueue_implicate_refresh(app, list(entities), conn=conn))


def enqueue_implicate_refresh(app: Wakeful, entity_ids: list[str], conn: object = None) -> int:
    """Enqueue one job for all of them. The flag `ingest.implicate.refresh_enabled` is the task's own switch."""
    job_id = app.queue.enqueue(job_type=TASK, payload={"entity_ids": entity_ids}, max_retries=MAX_RETRIES, conn=conn)
    return 1 if job_id else 0
