"""What is missing, and a span that never ends, every public verb refuses in a sentence, with a SQLSTATE of ours."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.sessions import INVALID, MISSING, REFUSED, STALE, Session, call, query, refusal, scalar, value
from tests.verbs import claim, enqueue, fail, job, register, started, state_of

ROW = {"key": "1", "state": "waiting", "task": "t"}
FENCE = {"id": None, "epoch": None, "worker_id": None}

MISSING_ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("enqueue", {"task": None}, INVALID),
    ("enqueue_many", {"jobs": None}, INVALID),
    ("enqueue_many", {"jobs": Jsonb([{}])}, INVALID),
    ("claim", {"worker_id": None}, INVALID),
    ("claim", {"worker_id": uuid4(), "want": None}, INVALID),
    ("claim", {"worker_id": uuid4(), "lease": None}, INVALID),
    ("complete", FENCE, STALE),
    ("fail", {**FENCE, "code": None, "message": None}, STALE),
    ("snooze", {**FENCE, "delay": None}, INVALID),
    ("release", FENCE, STALE),
    ("extend", {**FENCE, "lease": None}, INVALID),
    ("requeue", {"id": None}, MISSING),
    ("retry_now", {"id": None}, MISSING),
    ("bury", {"id": None, "reason": None}, MISSING),
    ("acknowledge", {"id": None}, MISSING),
    ("cleanup", {"state": None, "keep": "1 day"}, INVALID),
    ("cleanup", {"state": "dead", "keep": None}, INVALID),
    ("cleanup", {"state": "dead", "keep": "1 day", "most": -1}, INVALID),
    ("drop_days", {"keep": None}, INVALID),
    ("explain", {"id": None}, MISSING),
    ("health", {"stuck_after": None}, INVALID),
    *((verb, {"name": name}, INVALID) for name in (None, "") for verb in ("pause_queue", "resume_queue", "pause_task")),
    *(("switch_task", {"name": name, "enqueuing": True}, INVALID) for name in (None, "")),
    *((verb, {"name": name}, INVALID) for name in (None, "") for verb in ("trip_breaker", "set_breaker")),
    ("reset_breaker", {"name": None}, MISSING),
    *(("set_task_policy", {"task": name, "concurrency": 1}, INVALID) for name in (None, "")),
    ("set_task_policy", {"task": "t", "breaker": ""}, INVALID),
    *(("set_queue_policy", {"queue": name, "concurrency": 1}, INVALID) for name in (None, "")),
    ("set_queue_policy", {"queue": "q", "fair": True, "weights": "[1]"}, INVALID),
    *((verb, {"name": None}, REFUSED) for verb in ("remove_schedule", "pause_schedule", "run_schedule")),
    *(("import_rows", {"source": name, "rows": Jsonb([ROW])}, INVALID) for name in (None, "")),
    *(("import_rows", {"source": "s", "rows": rows}, INVALID) for rows in (None, "{}", "[1]")),
    ("import_rows", {"source": "s", "rows": Jsonb([{**ROW, "state": "completed", "task": None}])}, INVALID),
    ("return_rows", {"source": None, "want": 1}, INVALID),
    ("return_rows", {"source": "s", "want": None}, INVALID),
    ("return_rows", {"source": "s", "want": -1}, INVALID),
    ("register_1", {"worker_id": None, "name": "w", "queues": None, "tasks": [], "slots": 1, "lease": "1 m"}, INVALID),
    (
        "register_1",
        {"worker_id": uuid4(), "name": "w", "queues": None, "tasks": None, "slots": 1, "lease": "1 m"},
        INVALID,
    ),
]


@pytest.mark.parametrize(("verb", "arguments", "sqlstate"), MISSING_ARGUMENTS)
def test_what_is_missing_is_refused_with_what_to_do(
    db: Session, verb: str, arguments: dict[str, Any], sqlstate: str
) -> None:
    waiting = enqueue(db)
    with pytest.raises(psycopg.Error) as caught:
        call(db, verb, **arguments)
    assert caught.value.sqlstate == sqlstate, caught.value
    assert caught.value.diag.message_hint
    assert state_of(db, waiting) == "ready"


def endless(db: Session) -> list[str]:
    """Spans that never end, or end where no calendar does."""
    return ["9000 years", "300000 years", *(["infinity"] if db.info.server_version >= 170000 else [])]


def test_a_lease_that_would_never_lapse_is_refused_wherever_one_is_given(db: Session) -> None:
    held, worker, waiting = started(db), register(db), enqueue(db)
    lanes: dict[str, Any] = {"queues": ["default"], "lanes": [1], "limits": [1], "tasks": ["t"]}
    new = {"worker_id": uuid4(), "name": "w", "queues": None, "tasks": ["t"], "slots": 1}
    claims = {"worker_id": held.worker_id, "ids": [held.id], "epochs": [held.epoch]}
    leases = [*endless(db), "0", "-1 second"]
    for lease in leases:
        for verb, arguments in (
            ("claim", {"worker_id": worker, "lease": lease}),
            ("claim_any_1", {"worker_id": worker, "queues": None, "tasks": None, "want": 1, "lease": lease}),
            ("claim_1", {"worker_id": worker, **lanes, "lease": lease}),
            ("pulse_1", {"worker_id": worker, "canary": None, **lanes, "lease": lease}),
            ("beat_1", {"worker_id": worker, "lease": lease}),
            ("register_1", {**new, "lease": lease}),
            ("extend", {**held.fence, "lease": lease}),
            ("extend_1", {**claims, "leases": [lease]}),
        ):
            with refusal(INVALID, match="lease"):
                call(db, verb, **arguments)
    assert state_of(db, waiting) == "ready"
    assert job(db, held.id)["lease_expires_at"] == held.row["lease_expires_at"]


def test_a_wait_that_never_ends_is_refused_wherever_one_is_given(db: Session) -> None:
    held = started(db)
    claims = {"worker_id": held.worker_id, "ids": [held.id], "epochs": [held.epoch]}
    told: dict[str, Any] = {"codes": ["c"], "messages": ["m"], "details": [None]}
    for wait in [*endless(db), "-1 second"]:
        for verb, arguments in (
            ("enqueue", {"task": "t", "delay": wait}),
            ("fail", {**held.fence, "code": "c", "message": "m", "retry_in": wait}),
            ("snooze", {**held.fence, "delay": wait}),
            ("settle_1", {**claims, **told, "outcomes": ["failed"], "retry_ins": [wait]}),
            ("settle_1", {**claims, **told, "outcomes": ["snoozed"], "retry_ins": [wait]}),
            ("trip_breaker", {"name": "b", "length": wait}),
            ("set_breaker", {"name": "b", "open_for": wait}),
            ("set_breaker", {"name": "b", "open_cap": wait}),
            ("set_task_policy", {"task": "t", "rate": 1, "per": wait}),
            ("set_queue_policy", {"queue": "q", "ageing": wait}),
        ):
            with refusal(INVALID):
                call(db, verb, **arguments)
    for rate in (1e-300, float("nan")):
        with refusal(INVALID):
            call(db, "set_task_policy", task="t", rate=rate)
    assert state_of(db, held.id) == "running"


@pytest.mark.parametrize("outcome", ["snoozed", "released"])
def test_a_job_that_is_put_off_without_a_wait_does_not_die_of_it(db: Session, outcome: str) -> None:
    held = started(db)
    claims: dict[str, Any] = {"worker_id": held.worker_id, "ids": [held.id], "epochs": [held.epoch]}
    told: dict[str, Any] = {"codes": [None], "messages": [None], "details": [None], "retry_ins": [None]}
    with refusal(INVALID, match="a wait is missing"):
        call(db, "settle_1", **claims, **told, outcomes=[outcome])
    assert state_of(db, held.id) == "running"


def test_to_keep_for_longer_than_there_is_history_is_to_keep_all(db: Session) -> None:
    for keep in endless(db):
        assert value(db, "cleanup", state="completed", keep=keep) == 0
        assert value(db, "drop_days", keep=keep) == 0
        assert value(db, "health", stuck_after=keep)["stuck"] == []


def test_to_say_nothing_of_the_poke_is_to_poke(db: Session) -> None:
    call(db, "claim_any_1", worker_id=uuid4(), queues=None, tasks=None, want=1, lease="1 minute", sleeps_for="1 minute")
    assert state_of(db, enqueue(db, poke=None)) == "ready"
    call(db, "enqueue_many", jobs=Jsonb([{"task": "t"}]), poke=None)
    assert scalar(db, "select count(*) from wakeful.job where pokes") >= 1


@pytest.mark.parametrize("name", ["run_at", "error_at", "created_at", "started_at", "finished_at"])
@pytest.mark.parametrize("state", ["waiting", "completed", "dead"])
def test_a_row_whose_time_no_calendar_has_is_not_imported(db: Session, name: str, state: str) -> None:
    for at in ("infinity", "-infinity", "20000-01-01", "0044-03-15 BC"):
        with refusal(INVALID, match="row 1 has a time"):
            call(db, "import_rows", source="s", rows=Jsonb([{**ROW, "state": state, name: at}]))
    assert scalar(db, "select count(*) from wakeful.imported") == 0


def test_a_letter_with_a_name_and_times_that_are_refused_is_shown_all_the_same(db: Session) -> None:
    held = started(db, max_attempts=1)
    fail(db, held, no_retry=True)
    odd = {"queue": "a\nb", "created_by": "a\tb", "run_at": "infinity", "expires_at": "20000-01-01T00:00:00+00:00"}
    query(db, "update wakeful.dead_letter set original_job = original_job || %s returning id", Jsonb(odd))
    [shown] = query(db, "select state, created_by, run_at::text, expires_at > '19999-12-01' as late from wakeful.jobs")
    assert shown == {"state": "dead", "created_by": "a\tb", "run_at": "infinity", "late": True}
    assert claim(db) == []
