"""What must hold after any fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.sessions import Session, query, scalar
from tests.worker.processes import until


def all_over(db: Session, ids: Sequence[UUID], seconds: float = 60) -> dict[str, int]:
    """Every acknowledged job comes to exactly one final state; how many to each."""
    until(lambda: scalar(db, "select count(*) from wakeful.job where id = any (%s)", list(ids)) == 0, seconds)
    rows = query(db, "select id, state from wakeful.jobs where id = any (%s)", list(ids))
    assert sorted(row["id"] for row in rows) == sorted(ids), "a job is missing, or told of twice"
    states = [row["state"] for row in rows]
    return {state: states.count(state) for state in set(states)}


def effects_happened_once(db: Session) -> None:
    """What was written in the transaction that completed a job is there once, and for completed jobs only."""
    odd = query(
        db,
        "select j.id, j.state, count(e.job_id) from wakeful.jobs j left join public.effect e on e.job_id = j.id"
        " where j.task = 'effect' group by j.id, j.state"
        " having count(e.job_id) <> case j.state when 'completed' then 1 else 0 end",
    )
    assert not odd


def row_of(db: Session, id: UUID) -> dict[str, Any]:
    """All that is told of a job."""
    [row] = query(db, "select * from wakeful.jobs where id = %s", id)
    return row
