"""`register_1`, `beat_1`, `leave_1`, `pulse_1` and turns: a worker comes, works and goes."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.sessions import (
    LAPSED,
    Ear,
    Session,
    background,
    call,
    query,
    refusal,
    scalar,
    session,
    shift_clock,
    until,
    value,
    wait_until_blocked,
)
from tests.verbs import (
    Held,
    complete,
    enqueue,
    enqueue_many,
    job,
    register,
    state_of,
    states,
    stats,
    worker_claim,
)
from wakeful.testing import Database

SERVED: dict[str, Any] = {"queues": ["default"], "lanes": [1], "tasks": ["t"]}


def beat(db: Session, worker: UUID, lease: str = "10 seconds") -> bool:
    alive = value(db, "beat_1", worker_id=worker, lease=lease)
    assert isinstance(alive, bool)
    return alive


def test_a_registered_worker_is_on_the_list(db: Session) -> None:
    worker = uuid4()
    call(
        db,
        "register_1",
        worker_id=worker,
        name="host:1",
        queues=["a"],
        tasks=["t"],
        slots=4,
        lease="10 seconds",
        details={"version": "1"},
    )
    [row] = query(db, "select * from wakeful.workers")
    assert (row["id"], row["name"], row["queues"], row["tasks"], row["slots"]) == (
        *(worker, "host:1", ["a"], ["t"]),
        4,
    )
    assert (row["alive"], row["asleep"], row["running"], row["details"]) == (True, False, 0, {"version": "1"})
    with pytest.raises(psycopg.errors.UniqueViolation):
        call(db, "register_1", worker_id=worker, name="x", queues=None, tasks=[], slots=1, lease="1 hour")


def test_a_beat_renews_a_lease_that_runs_and_never_one_that_has_lapsed(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    shift_clock(db, "9 seconds")
    assert beat(db, worker)
    shift_clock(db, "9 seconds")
    assert beat(db, worker)
    shift_clock(db, "11 seconds")
    assert not beat(db, worker)
    assert not beat(db, uuid4())
    [row] = query(db, "select alive from wakeful.workers")
    assert row["alive"] is False


def test_a_beat_that_had_to_wait_does_not_take_up_a_lease_that_lapsed_meanwhile(
    db: Session, other: Session, kept_database: Database
) -> None:
    worker = register(db, lease="300 milliseconds")
    with session(kept_database.dsn) as waiting, background() as start:
        other.execute("begin")
        scalar(other, "select id from wakeful.worker where id = %s for update", worker)
        beating = start(beat, waiting, worker)
        wait_until_blocked(db, waiting)
        until(lambda: not query(db, "select from wakeful.worker where lease_expires_at > wakeful.now()"))
        other.execute("commit")
        assert beating.result() is False


def test_who_leaves_releases_what_it_holds_uncharged(db: Session) -> None:
    worker, stays = register(db), register(db)
    mine = [enqueue(db, max_attempts=1) for _ in range(2)]
    worker_claim(db, worker, sleeps="all")
    leased = enqueue(db)
    worker_claim(db, worker, lease="1 hour")
    others = enqueue(db)
    worker_claim(db, stays)
    assert value(db, "leave_1", worker_id=worker) == 3
    assert states(db) == {**dict.fromkeys([*mine, leased], "ready"), others: "running"}
    assert {job(db, id)["attempt"] for id in mine} == {0}
    assert [row["id"] for row in query(db, "select id from wakeful.worker")] == [stays]
    assert query(db, "select from wakeful.sleeper where worker_id = %s", worker) == []
    with refusal(LAPSED):
        worker_claim(db, worker)


def test_a_cancelled_job_of_a_worker_that_leaves_is_cancelled(db: Session) -> None:
    worker = register(db)
    id = enqueue(db)
    worker_claim(db, worker)
    call(db, "cancel", id=id)
    assert value(db, "leave_1", worker_id=worker) == 1
    assert state_of(db, id) == "cancelled"


def turn(db: Session, worker: UUID, done: list[Held], want: int) -> tuple[list[Held], list[UUID]]:
    """Complete and claim in one call; what was taken, and the completions that were stale."""
    ids, epochs = [held.id for held in done], [held.epoch for held in done]
    taken, report = worker_claim(db, worker, want=want, tend=False, done_ids=ids, done_epochs=epochs)
    return taken, report["refused"]


def test_a_turn_settles_the_last_batch_and_claims_the_next(db: Session) -> None:
    worker = register(db)
    enqueue_many(db, [{"task": "t"} for _ in range(5)])
    first, refused = turn(db, worker, [], 2)
    assert (len(first), refused) == (2, [])
    second, refused = turn(db, worker, first, 3)
    assert (len(second), refused) == (3, [])
    third, refused = turn(db, worker, second, 3)
    assert (third, refused) == ([], [])
    assert stats(db) == {"completed": 5}


def test_a_turn_tells_of_stale_completions_and_of_repeats_it_does_not(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    enqueue_many(db, [{"task": "t"} for _ in range(2)])
    (kept, lost), _ = worker_claim(db, worker)
    complete(db, kept)
    lost_to = register(db, lease="1 day")
    shift_clock(db, "11 seconds")
    value(db, "rescue")
    # It was alone in its worker, and so comes under suspicion.
    assert [held.id for held in worker_claim(db, lost_to, want=1, alone=True)[0]] == [lost.id]
    with refusal(LAPSED):
        turn(db, worker, [kept, lost], 1)
    again = register(db)
    stranger = [Held(held.id, held.epoch, again, {}) for held in (kept, lost)]
    assert sorted(turn(db, again, stranger, 0)[1]) == sorted([kept.id, lost.id])
    assert job(db, lost.id)["worker_id"] == lost_to


def test_a_turn_of_a_lapsed_worker_settles_nothing(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    enqueue(db)
    [held], _ = worker_claim(db, worker)
    shift_clock(db, "11 seconds")
    with refusal(LAPSED):
        turn(db, worker, [held], 1)
    assert state_of(db, held.id) == "running"


def test_a_pulse_beats_sends_the_canary_and_claims(db: Session, kept_database: Database) -> None:
    worker = register(db, lease="10 seconds")
    shift_clock(db, "9 seconds")
    id = enqueue(db)
    with session(kept_database.dsn) as listener:
        ear = Ear(listener, worker)
        rows = call(db, "pulse_1", worker_id=worker, lease="10 seconds", canary=42, limits=[1], **SERVED)
        assert {"canary": 42} in ear.heard(db)
    assert [row["id"] for row in rows if row["id"]] == [id]
    shift_clock(db, "9 seconds")
    assert value(db, "rescue") == 0
    shift_clock(db, "9 seconds")
    with refusal(LAPSED):
        call(db, "pulse_1", worker_id=worker, lease="10 seconds", canary=None, limits=[1], **SERVED)


def test_the_pulse_of_a_worker_that_serves_every_queue_finds_the_queues_of_its_tasks(db: Session) -> None:
    worker = register(db)
    ids = {enqueue(db, queue=queue) for queue in ("b", "a", "b", "default")}
    enqueue(db, "other", queue="foreign")
    named = dict(SERVED)
    rows = call(db, "pulse_1", worker_id=worker, lease="1 hour", canary=None, limits=[9], every_lane=1, **named)
    assert {row["id"] for row in rows if row["id"]} == ids
    assert stats(db) == {"running": 4, "ready": 1}
