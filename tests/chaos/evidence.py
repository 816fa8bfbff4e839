"""All that the checkers look at: the history, the tables, and the moves that a witness in the database saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.chaos.history import Asked, History, Run
from tests.sessions import Session, query, scalar

# Every move of a live row, in the transaction that made it, seen by nobody's bookkeeping but this one.
WITNESS = """
create schema witness;
create table public.effect (job_id uuid not null, epoch bigint not null);
create table witness.move (
    seq bigint generated always as identity primary key,
    job uuid not null, task text not null, dedup_key text, before smallint, after smallint, epoch bigint not null,
    worker uuid, at timestamptz not null, lease timestamptz, outcome text,
    tx xid8 not null default pg_current_xact_id());
create index on witness.move (job);
create function witness.watch() returns trigger language plpgsql security definer as $$
declare
    held timestamptz;
    row wakeful.job;
begin
    if tg_op <> 'INSERT' and old.state = 2 then
        held := coalesce(old.lease_expires_at,
            (select w.lease_expires_at from wakeful.worker w where w.id = old.worker_id));
    end if;
    if tg_op = 'DELETE' then row := old; else row := new; end if;
    insert into witness.move (job, task, dedup_key, before, after, epoch, worker, at, lease, outcome)
    values (row.id, row.task, row.dedup_key, case when tg_op <> 'INSERT' then old.state end,
        case when tg_op <> 'DELETE' then new.state end, row.epoch,
        case when tg_op = 'UPDATE' and new.worker_id is null then old.worker_id else row.worker_id end,
        wakeful.now(), held,
        case when tg_op = 'UPDATE' and old.state = 2 and new.state < 2 then new.attempts -> -1 ->> 'outcome' end);
    return null;
end $$;
create trigger witness_rows after insert or delete on wakeful.job for each row execute function witness.watch();
create trigger witness_moves after update on wakeful.job for each row
    when ((old.state, old.epoch, old.worker_id) is distinct from (new.state, new.epoch, new.worker_id))
    execute function witness.watch();
"""

LIVE = ("scheduled", "ready", "running")
RUNNING = 2


@dataclass(frozen=True, slots=True)
class Job:
    """A row of the view `jobs`."""

    id: UUID
    task: str
    state: str
    attempt: int = 1
    max_attempts: int = 5
    epoch: int = 1
    worker_id: UUID | None = None
    dedup_key: str | None = None
    result: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    attempts: Sequence[dict[str, Any]] = ()
    finished_at: datetime | None = None

    @property
    def live(self) -> bool:
        return self.state in LIVE


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a live row as the witness saw it: `before` and `after` are states, None for no row."""

    seq: int
    job: UUID
    task: str
    before: int | None
    after: int | None
    epoch: int
    at: datetime
    dedup_key: str | None = None
    worker: UUID | None = None
    lease: datetime | None = None
    outcome: str | None = None


@dataclass(slots=True)
class Evidence:
    """What one run left behind."""

    asked: dict[UUID, Asked] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    # (job, epoch) of each row that a handler wrote in the transaction that completed its job.
    effects: list[tuple[UUID, int]] = field(default_factory=list)
    shown: dict[str, int] = field(default_factory=dict)
    audited: set[UUID] = field(default_factory=set)
    deadlocks: int = 0
    slots: int = 10
    # Tasks of which only so many may run at once, over all workers.
    limits: dict[str, int] = field(default_factory=lambda: {"limited": 2})
    ownership_losses: bool = True
    drained: bool = True


def gather(db: Session, history: History, **facts: Any) -> Evidence:
    """Everything there is to see, once all is quiet."""
    jobs = query(
        db,
        "select id, task, state, attempt, max_attempts, epoch, worker_id, dedup_key, result, metadata,"
        " coalesce(attempts, '[]') as attempts, finished_at from wakeful.jobs",
    )
    moves = query(
        db,
        "select seq, job, task, before, after, epoch, at, dedup_key, worker, lease, outcome from witness.move m"
        # A row that the transaction takes back that made it (a job sent again that is over) was never there.
        " where not exists (select from witness.move o where o.job = m.job and o.tx = m.tx"
        " and (m.before is null and o.after is null or o.before is null and m.after is null)) order by seq",
    )
    effects = query(db, "select job_id, epoch from public.effect")
    [counts] = query(db, "select * from wakeful.stats()")
    audited = query(db, "select job_id from wakeful.audit where job_id is not null")
    found = Evidence(
        asked=history.asked(),
        runs=history.runs(),
        jobs=[Job(**row) for row in jobs],
        moves=[Move(**row) for row in moves],
        effects=[(row["job_id"], row["epoch"]) for row in effects],
        shown=counts,
        audited={row["job_id"] for row in audited},
        deadlocks=scalar(db, "select deadlocks from pg_stat_database where datname = current_database()"),
    )
    for name, fact in facts.items():
        setattr(found, name, getattr(found, name) + fact if name == "deadlocks" else fact)
    return found
