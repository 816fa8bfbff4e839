"""The verbs of the SQL core as the tests say them: each one call of one function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from tests.sessions import Session, call, query, value
from wakeful.values.identity import new_id


@dataclass(frozen=True, slots=True)
class Held:
    """A claimed job: the three parts of the fence, and the row that came with them."""

    id: UUID
    epoch: int
    worker_id: UUID
    row: dict[str, Any]

    @property
    def fence(self) -> dict[str, object]:
        """The arguments by which every verb of settling asks for the fence."""
        return {"id": self.id, "epoch": self.epoch, "worker_id": self.worker_id}


def enqueue(db: Session, task: str = "t", payload: dict[str, Any] | None = None, **options: object) -> UUID:
    """Enqueue one job; the id that stands for it."""
    made = value(db, "enqueue", task=task, payload=payload or {}, **options)
    assert isinstance(made, UUID)
    return made


def enqueue_one(db: Session, **options: Any) -> Any:
    """Enqueue one job as our own client does, and nothing after it; what is told of it."""
    asked = {"id": new_id(), "task": "t", "payload": {}, "fresh": True, "poke": True, "alone": True}
    return value(db, "enqueue_one_1", **{**_NOTHING_SPECIAL, **asked, **options})


_NOTHING_SPECIAL = dict.fromkeys(
    (
        *("queue", "priority", "run_at", "delay", "max_attempts", "dedup_key", "dedup", "tenant", "correlation_id"),
        *("parent_id", "created_by", "metadata", "expires_at", "default_off"),
    )
)


def enqueue_many(db: Session, jobs: Sequence[dict[str, Any]], **options: object) -> list[dict[str, Any]]:
    """Enqueue a JSON array of jobs; place, id and action of each."""
    return call(db, "enqueue_many", jobs=Jsonb(jobs), **options)


def claim(
    db: Session,
    worker: UUID | None = None,
    *,
    want: int = 1,
    queues: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    lease: str = "5 minutes",
) -> list[Held]:
    """Claim with leases on the jobs, in line order."""
    holder = worker or uuid4()
    rows = call(
        db,
        "claim",
        worker_id=holder,
        want=want,
        queues=None if queues is None else list(queues),
        tasks=None if tasks is None else list(tasks),
        lease=lease,
    )
    return [Held(row["id"], row["epoch"], holder, row) for row in rows]


def claim_one(db: Session, worker: UUID | None = None, **options: Any) -> Held:
    """Claim the one job that there must be."""
    [held] = claim(db, worker, **options)
    return held


def started(db: Session, task: str = "t", worker: UUID | None = None, **options: Any) -> Held:
    """A job of the task, enqueued and claimed."""
    lease = options.pop("lease", "5 minutes")
    id = enqueue(db, task, options.pop("payload", None), **options)
    held = claim_one(db, worker, tasks=[task], lease=lease)
    assert held.id == id
    return held


def register(db: Session, *, lease: str = "1 hour", tasks: Sequence[str] = ("t",)) -> UUID:
    """A new worker with a lease of its own."""
    worker = uuid4()
    arguments = {"name": "w", "queues": None, "tasks": list(tasks), "slots": 4, "lease": lease}
    call(db, "register_1", worker_id=worker, **arguments)
    return worker


def worker_claim(
    db: Session,
    worker: UUID,
    *,
    queues: Sequence[str] = ("default",),
    tasks: Sequence[str] = ("t",),
    want: int = 10,
    **options: object,
) -> tuple[list[Held], dict[str, Any]]:
    """A worker's claim by one lane: the jobs in line order, and the report."""
    options = {"lanes": [1] * len(queues), "limits": [want], **options}
    rows = call(db, "claim_1", worker_id=worker, queues=list(queues), tasks=list(tasks), **options)
    taken = sorted((row for row in rows if row["id"] is not None), key=position)
    return [Held(row["id"], row["epoch"], worker, row) for row in taken], rows[-1]


def poked_claim(
    db: Session, worker: UUID, id: UUID, *, queues: Sequence[str] = ("default",), tasks: Sequence[str] = ("t",)
) -> list[Held]:
    """The claim of a worker that was poked for this job."""
    served = {"queues": list(queues), "lanes": [1] * len(queues), "limits": [10], "tasks": list(tasks)}
    rows = call(db, "claim_poked_1", worker_id=worker, id=id, **served)
    return [Held(row["id"], row["epoch"], worker, row) for row in rows if row["id"] is not None]


def position(row: dict[str, Any]) -> tuple[int, Any, UUID]:
    """Where a claimed job stood in line."""
    return row["rank"], row["ready_at"], row["id"]


def complete(db: Session, held: Held, result: object = None) -> None:
    """Complete a job, with a result that JSON can hold."""
    call(db, "complete", **held.fence, result=None if result is None else Jsonb(result))


def complete_all(db: Session, worker: UUID, held: Sequence[Held]) -> list[dict[str, Any]]:
    """Complete jobs of one worker set-wise; the refused ones come back."""
    ids, epochs = [one.id for one in held], [one.epoch for one in held]
    return call(db, "complete_1", worker_id=worker, ids=ids, epochs=epochs)


def fail(db: Session, held: Held, **options: object) -> None:
    """Fail a job; the code and message are made up unless they are given."""
    call(db, "fail", **held.fence, **{"code": "boom", "message": "it broke", **options})


def settle(db: Session, worker: UUID, endings: Iterable[tuple[UUID, int, str, str | None]]) -> list[dict[str, Any]]:
    """End attempts set-wise, each by (id, epoch, outcome, retry_in); the refused ones come back."""
    given = list(endings)
    return query(
        db,
        "select * from wakeful.settle_1(%s, %s::uuid[], %s::bigint[], %s::text[], %s::text[], %s::text[],"
        " null, %s::interval[])",
        worker,
        [id for id, *_ in given],
        [epoch for _, epoch, *_ in given],
        [outcome for *_, outcome, _ in given],
        ["boom" if outcome == "failed" else None for *_, outcome, _ in given],
        ["it broke" if outcome == "failed" else None for *_, outcome, _ in given],
        [retry_in for *_, retry_in in given],
    )


def job(db: Session, id: UUID) -> dict[str, Any]:
    """The one row of the view that tells of this job."""
    [row] = query(db, "select * from wakeful.jobs where id = %s", id)
    return row


def state_of(db: Session, id: UUID) -> str | None:
    """The job's state; None for one that nobody knows."""
    rows = query(db, "select state from wakeful.jobs where id = %s", id)
    assert len(rows) <= 1, rows
    return str(rows[0]["state"]) if rows else None


def states(db: Session) -> dict[UUID, str]:
    """Every known job's state."""
    rows = query(db, "select id, state from wakeful.jobs")
    known = {row["id"]: row["state"] for row in rows}
    assert len(known) == len(rows), "a job is told of twice"
    return known


def stats(db: Session, task: str | None = None) -> dict[str, int]:
    """The counts by state, without those that are zero."""
    [row] = call(db, "stats", task=task)
    return {name: count for name, count in row.items() if count}


def fall_asleep(db: Session, queues: Sequence[str] | None = None, tasks: Sequence[str] | None = None) -> UUID:
    """A worker that wants to be poked for these queues and tasks (None: for all)."""
    worker = uuid4()
    db.execute(
        "insert into wakeful.sleeper (worker_id, queues, tasks) values (%s, %s::text[], %s::text[])",
        [worker, None if queues is None else list(queues), None if tasks is None else list(tasks)],
    )
    return worker
