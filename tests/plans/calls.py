"""The calls whose plans are guarded: each with what it needs, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.sessions import Session, call, query, value
from tests.verbs import (
    Held,
    claim,
    complete,
    enqueue,
    enqueue_many,
    enqueue_one,
    fail,
    poked_claim,
    register,
    settle,
    worker_claim,
)
from wakeful.values.identity import new_id


@dataclass(frozen=True, slots=True)
class Call:
    """Something to be watched: `prepare` is not."""

    act: Callable[[Session], object]
    prepare: Callable[[Session], object] = lambda db: None
    # The rows that a scan or a sort of it may look at.
    most_rows: int = 100

    @property
    def bounded(self) -> bool:
        """Whether what it touches must not grow."""
        return self.most_rows < 1000


_WORKER = UUID("00000000-0000-4000-8000-000000000001")
# What `holding` has prepared: to look it up would be one more statement to be watched.
_HELD: list[Held] = []
_NAMED: list[UUID] = []
_LISTENER: list[Session] = []
_KNOWN = UUID("01890000-0000-7000-8000-000000000001")


def present(db: Session, jobs: int = 10) -> None:
    """The worker is registered, and some jobs are in line."""
    db.execute("delete from wakeful.job where state = 2 and worker_id = %s", [_WORKER])
    db.execute("delete from wakeful.worker where id = %s", [_WORKER])
    arguments = {"name": "w", "queues": None, "tasks": ["t"], "slots": 4, "lease": "1 hour"}
    call(db, "register_1", worker_id=_WORKER, **arguments)
    enqueue_many(db, [{"task": "t", "priority": 9} for _ in range(jobs)])


def holding(db: Session, jobs: int = 100) -> None:
    """The worker holds jobs: a hundred are enough for a plan to show that it goes through all once for each."""
    present(db, jobs)
    _HELD[:], _ = worker_claim(db, _WORKER, want=jobs)


def held_ids() -> tuple[list[UUID], list[int]]:
    return [held.id for held in _HELD], [held.epoch for held in _HELD]


def complete_all_held(db: Session) -> None:
    ids, epochs = held_ids()
    call(db, "complete_1", worker_id=_WORKER, ids=ids, epochs=epochs)


def turn(db: Session) -> None:
    ids, epochs = held_ids()
    worker_claim(db, _WORKER, want=10, tend=False, done_ids=ids, done_epochs=epochs)


def poked(db: Session) -> None:
    """Poked for the one that is known."""
    assert poked_claim(db, _WORKER, _NAMED[0])


def named(db: Session, jobs: int = 10) -> None:
    """One of those in line is known by name."""
    present(db, jobs)
    _NAMED[:] = [enqueue(db, priority=9)]


def taking(db: Session) -> None:
    """The worker sleeps, listens, and takes what it is handed."""
    present(db, 0)
    listener: Session = psycopg.connect(db.info.dsn, password=db.info.password, autocommit=True, row_factory=dict_row)
    hang_up()
    _LISTENER[:] = [listener]
    call(listener, "attend_1", worker_id=_WORKER, channel="wakeful_watched")
    worker_claim(db, _WORKER, sleeps="all", takes="wakeful_watched")


def hang_up() -> None:
    """End the listening of the worker that takes what it is handed."""
    for listener in _LISTENER:
        listener.close()


def hand_over(db: Session) -> None:
    assert enqueue_one(db) is None, "it was not handed over"


def handed(db: Session) -> None:
    """It has been handed a job."""
    taking(db)
    id = new_id()
    assert enqueue_one(db, id=id) is None
    _NAMED[:] = [id]


def fail_all(db: Session) -> None:
    ids, epochs = held_ids()
    endings = [(id, epoch, "failed", "1 day") for id, epoch in zip(ids, epochs, strict=True)]
    assert settle(db, _WORKER, endings) == []


def extend_all(db: Session) -> None:
    ids, epochs = held_ids()
    query(
        db,
        "select * from wakeful.extend_1(%s, %s, %s::bigint[], array_fill(interval '1 day', array[%s]))",
        *(_WORKER, ids, epochs, len(ids)),
    )


def lapsed(db: Session) -> None:
    """Five jobs whose own leases have lapsed, and a worker whose lease has, with one."""
    enqueue_many(db, [{"task": "t", "priority": 10} for _ in range(6)])
    claim(db, uuid4(), want=5, queues=["default"], tasks=["t"], lease="1 microsecond")
    gone = register(db)
    worker_claim(db, gone, want=1, tend=False)
    db.execute("update wakeful.worker set lease_expires_at = now() where id = %s", [gone])


def due(db: Session) -> None:
    """Five scheduled jobs whose time has come."""
    enqueue_many(db, [{"task": "t", "delay": "1 microsecond"} for _ in range(5)])
    db.execute(
        "update wakeful.job set state = 0, ready_at = null, run_at = now() - interval '1 day'"
        " where id in (select id from wakeful.job where state = 1 and task = 't' and rank = 0 limit 5)"
    )


def buried(db: Session) -> None:
    """The worker has lost one for good."""
    holding(db, jobs=1)
    fail(db, _HELD[0], no_retry=True)


def requeue(db: Session) -> None:
    value(db, "requeue", id=_HELD[0].id)


def twins(db: Session) -> None:
    enqueue(db, dedup_key="watched", delay="1 day", dedup="replace")


def schedule(db: Session) -> None:
    """One that is due."""
    db.execute("delete from wakeful.schedule where name = 'watched'")
    call(db, "add_schedule", name="watched", task="t", every="1 hour")


def fire(db: Session) -> None:
    firing = {"name": "watched", "revision": 1, "last_slot": None, "slots": ["2020-01-01T00:00Z"]}
    call(db, "fire_1", firings=Jsonb([{**firing, "next_slot": "2200-01-01T00:00Z"}]))


def finish_known(db: Session) -> None:
    enqueue(db, id=_KNOWN, priority=100)
    for held in claim(db, queues=["default"], tasks=["t"]):
        complete(db, held)


def warm(db: Session) -> None:
    """Make every call once with one job, as an idle worker does all day, and leave nothing."""
    for one in CALLS.values():
        if one.prepare in (present, holding, named):
            one.prepare(db, jobs=1)
        else:
            one.prepare(db)
        one.act(db)
        db.execute("delete from wakeful.job")


_SERVED = {"queues": ["default"], "lanes": [1], "limits": [10], "tasks": ["t"]}

CALLS = {
    "claim_1": Call(partial(worker_claim, worker=_WORKER, want=10, sleeps="all", pass_on=True), present),
    "claim_1 that only takes": Call(partial(worker_claim, worker=_WORKER, want=10, tend=False), present),
    "claim_1 that comes back short": Call(
        partial(worker_claim, worker=_WORKER, tasks=["t", "nobody's"], queues=["empty", "vacant"]), present
    ),
    "claim_poked_1": Call(poked, named),
    "claim_poked_1 of one that is gone": Call(lambda db: poked_claim(db, _WORKER, uuid4()), present),
    "claim_1 of one that must run alone": Call(
        partial(worker_claim, worker=_WORKER, want=1, alone=True, tend=False), present
    ),
    "claim_1 that completes the last batch": Call(turn, holding, most_rows=400),
    "pulse_1": Call(lambda db: call(db, "pulse_1", worker_id=_WORKER, lease="1 hour", canary=1, **_SERVED), present),
    "claim of everything": Call(partial(claim, worker=_WORKER, want=10), present),
    "complete_1": Call(complete_all_held, holding, most_rows=400),
    "complete_1 that is refused": Call(
        lambda db: call(db, "complete_1", worker_id=_WORKER, ids=[uuid4() for _ in range(10)], epochs=[1] * 10)
    ),
    "settle_1": Call(fail_all, holding, most_rows=400),
    "extend_1": Call(extend_all, holding, most_rows=400),
    "leave_1": Call(lambda db: value(db, "leave_1", worker_id=_WORKER), holding, most_rows=400),
    "promote": Call(lambda db: value(db, "promote", queues=["default"], tasks=["t"]), due),
    "rescue": Call(lambda db: value(db, "rescue"), lapsed),
    "expire": Call(lambda db: value(db, "expire"), lambda db: enqueue(db, expires_at="2001-01-01")),
    "enqueue": Call(enqueue),
    "enqueue_one_1 that hands over": Call(hand_over, taking),
    "accept_1": Call(
        lambda db: call(db, "accept_1", worker_id=_WORKER, ids=list(_NAMED), epochs=[1], enough=True), handed
    ),
    "enqueue of a known id": Call(partial(enqueue, id=_KNOWN), finish_known),
    "enqueue of a twin": Call(partial(enqueue, dedup_key="watched", dedup="replace", delay="1 day"), twins),
    "enqueue_many": Call(lambda db: enqueue_many(db, [{"task": "t", "priority": 1} for _ in range(10)])),
    "cancel": Call(lambda db: value(db, "cancel", id=_KNOWN)),
    "requeue": Call(requeue, buried),
    "fire_1": Call(fire, schedule),
}
