"""The scripts that count, clean up, cancel and put back."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID

from wakeful.queue.presence import as_id
from wakeful.queue.script import Script, Sleep
from wakeful.statements import operate, read
from wakeful.values.duration import LONGEST
from wakeful.values.errors import JobNotFound, Refused
from wakeful.values.names import task_name
from wakeful.values.number import real_number
from wakeful.values.report import Stats
from wakeful.values.state import final_state

ROWS_AT_ONCE: Final = 10_000
TRIES_ON_A_LOCKED_ROW: Final = 20


def get_stats(task: str | None) -> Script[dict[str, int]]:
    """Exact counts, without counting history."""
    found: Stats = yield read.stats(None if task is None else task_name(task))
    return found.in_other_words()


def cleanup_old_jobs(days: float, status: str) -> Script[int]:
    """Remove what has been over for longer than `days`, a batch a transaction; the answer is how many."""
    keep = timedelta(days=real_number(days, "days", 0, LONGEST.days))
    state, total = final_state(status), 0
    while removed := (yield operate.cleanup(state, keep, ROWS_AT_ONCE, None)):
        total += removed
    return total


def cancel(job_id: UUID | str, reason: str | None, actor: str | None) -> Script[str]:
    """`cancelled`, or `requested` where it runs and its worker is told to stop."""
    id, answer = as_id(job_id), "busy"
    for _ in range(TRIES_ON_A_LOCKED_ROW):
        answer = (yield operate.cancel([id], reason, actor))[id]
        if answer != "busy":
            break
        yield Sleep(None, 0.05)
    match answer:
        case "unknown":
            raise JobNotFound(id)
        case "over":
            raise Refused(f"Job {id} is over, so there is nothing to cancel.", job_id=id)
        case "busy":
            raise Refused(f"Job {id} is locked by another transaction. Try again.", job_id=id)
    return answer


def requeue(job_id: UUID | str, actor: str | None) -> Script[UUID]:
    """Put back a finished or dead job; the answer is the id of the job that stands for it."""
    id = as_id(job_id)
    made: dict[UUID, UUID] = yield operate.requeue([id], actor)
    return made[id]


def retry(job_id: UUID | str, actor: str | None) -> Script[UUID]:
    """Start a job as soon as can be: one that waits is made ready, one that is over is put back."""
    id = as_id(job_id)
    try:
        yield operate.retry_now(id, actor)
    except JobNotFound:
        pass
    else:
        return id
    try:
        return (yield from requeue(id, actor))
    except JobNotFound:
        # In the words of the one verb that was asked for: SQL's advice is the half that was tried before.
        raise JobNotFound(id) from None
