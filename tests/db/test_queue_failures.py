"""`app.queue.mark_failed` keeps to what the task says of its failures, as a worker does."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.db.queues import Verbs
from tests.sessions import Session, query
from wakeful.app import Wakeful
from wakeful.queue import ClaimedJob
from wakeful.values.retry import Fixed

CANARY = "c4nary-5f1e"


async def claimed(verbs: Verbs, app: Wakeful, **options: Any) -> ClaimedJob:
    app.task(name="t", **options)(lambda token, pin, other: None)
    await verbs.enqueue("t", {"token": CANARY, "pin": 40817, "other": 7})
    [job] = await verbs.claim("t")
    assert isinstance(job, ClaimedJob)
    return job


def told(db: Session, id: UUID) -> dict[str, Any]:
    [row] = query(db, "select * from wakeful.jobs where id = %s", id)
    return row


@pytest.mark.parametrize(
    "failure",
    [
        {"error": ValueError(f"login with {CANARY} and 40817 refused")},
        {"error": f"login with {CANARY} refused, 40817 too"},
        {"error": (CANARY, f"refused: {CANARY}")},
        {"code": "E1", "message": f"refused: {CANARY}", "details": {CANARY: [{"pin": 40817}, f"said {CANARY}"]}},
    ],
)
async def test_no_secret_of_the_payload_is_stored_with_an_error(
    verbs: Verbs, app: Wakeful, db: Session, failure: dict[str, Any]
) -> None:
    job = await claimed(verbs, app, redact=["token", "pin"])
    await verbs.mark_failed(job, **failure, retry=False)
    kept = told(db, job.id)
    assert "[redacted]" in str(kept["last_error_message"])
    [letter] = query(db, "select error_code, error_message, error_details::text as details from wakeful.dead_letters")
    for stored in (str(kept["attempts"]), str(letter)):
        assert CANARY not in stored
        assert "40817" not in stored


async def test_what_the_task_says_of_an_exception_holds(verbs: Verbs, app: Wakeful, db: Session) -> None:
    job = await claimed(verbs, app, dead_on=KeyError, retry_on={ConnectionError: Fixed(7200)})
    await verbs.mark_failed(job, ConnectionResetError("gone"))
    waiting = told(db, job.id)
    assert (waiting["run_at"] - waiting["started_at"]).total_seconds() > 7000
    db.execute("select wakeful.retry_now(%s)", [job.id])
    [again] = await verbs.claim("t")
    await verbs.mark_failed(again, KeyError("x"))
    assert told(db, job.id)["state"] == "dead"
