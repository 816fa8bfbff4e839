"""The poke: who is told, when, what, and how often."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.sessions import Ear, Session, call, query, scalar, session, shift_clock, value
from tests.verbs import (
    claim,
    claim_one,
    complete,
    enqueue,
    enqueue_many,
    fail,
    fall_asleep,
    job,
    register,
    started,
    worker_claim,
)
from wakeful.testing import Database
from wakeful.values.identity import new_ids

Hints = list[dict[str, Any]]


class Sleeper:
    """One worker that sleeps for all queues, and what reaches it."""

    def __init__(self, db: Session, listener: Session) -> None:
        self.id = fall_asleep(db)
        self._db = db
        self._ear = Ear(listener, self.id)

    def heard(self) -> Hints:
        return self._ear.heard(self._db)


@pytest.fixture
def listener(kept_database: Database) -> Iterator[Session]:
    with session(kept_database.dsn) as conn:
        yield conn


@pytest.fixture
def sleeper(db: Session, listener: Session) -> Sleeper:
    return Sleeper(db, listener)


def place(db: Session, id: UUID) -> list[object]:
    """A ready job's position as a poke names it."""
    [row] = query(
        db,
        "select rank, (extract(epoch from ready_at) * 1000000)::bigint as us, id from wakeful.job where id = %s",
        id,
    )
    return [row["rank"], row["us"], str(row["id"])]


def test_a_ready_job_is_told_by_queue_and_position(db: Session, sleeper: Sleeper) -> None:
    id = enqueue(db, queue="mail", priority=7)
    assert sleeper.heard() == [{"q": "mail", "in": 0, "at": place(db, id)}]
    assert place(db, id)[0] == -7


def test_a_job_due_later_is_told_by_its_delay(db: Session, sleeper: Sleeper) -> None:
    enqueue(db, delay="90 seconds")
    [hint] = sleeper.heard()
    assert set(hint) == {"q", "in"}
    assert hint["q"] == "default"
    assert 80_000 < hint["in"] <= 90_000
    assert isinstance(hint["in"], int)


def test_nobody_is_told_while_nobody_sleeps(db: Session, listener: Session) -> None:
    busy = uuid4()
    ear = Ear(listener, busy)
    enqueue(db)
    assert ear.heard(db) == []


def test_nobody_is_told_who_serves_other_queues(db: Session, listener: Session) -> None:
    picky = fall_asleep(db, ["other", "mail"])
    ear = Ear(listener, picky)
    enqueue(db)
    assert ear.heard(db) == []
    enqueue(db, queue="mail")
    assert [hint["q"] for hint in ear.heard(db)] == ["mail"]


def test_nobody_is_told_who_does_not_have_the_task(db: Session, listener: Session) -> None:
    picky = fall_asleep(db, tasks=["other", "mail.send"])
    ear = Ear(listener, picky)
    enqueue(db, "t")
    assert ear.heard(db) == []
    with db.transaction():
        enqueue(db, "t")
        id = enqueue(db, "mail.send")
        enqueue(db, "mail.send")
    assert [hint["at"] for hint in ear.heard(db)] == [place(db, id)]


def test_one_job_wakes_at_most_two_of_a_fleet(db: Session, listener: Session) -> None:
    fleet = [fall_asleep(db) for _ in range(10)]
    ear = Ear(listener, *fleet)
    for _ in range(20):
        enqueue(db)
        assert len(ear.heard(db)) == 2


def test_a_transaction_of_many_enqueues_pokes_once(db: Session, sleeper: Sleeper) -> None:
    with db.transaction():
        first = enqueue(db)
        for _ in range(50):
            enqueue(db)
        enqueue_many(db, [{"task": "t"} for _ in range(50)])
        enqueue(db, delay="1 hour")
    assert sleeper.heard() == [{"q": "default", "in": 0, "at": place(db, first)}]


def test_a_set_pokes_once_a_queue_by_its_best_row(db: Session, sleeper: Sleeper) -> None:
    made = enqueue_many(
        db,
        [
            {"task": "t", "queue": "a"},
            {"task": "t", "queue": "a", "priority": 9},
            {"task": "t", "queue": "b", "delay": "1 hour"},
            {"task": "t", "queue": "b", "delay": "1 minute"},
        ],
    )
    hints = {hint["q"]: hint for hint in sleeper.heard()}
    assert hints["a"]["at"] == place(db, made[1]["id"])
    assert 50_000 < hints["b"]["in"] <= 60_000
    assert len(hints) == 2


def test_what_is_better_than_what_was_said_is_said_too(db: Session, sleeper: Sleeper) -> None:
    with db.transaction():
        enqueue(db, delay="1 hour")
        enqueue(db, delay="1 minute")
        enqueue(db, delay="2 minutes")
        plain = enqueue(db)
        enqueue(db, priority=-5)
        better = enqueue(db, priority=5)
        enqueue(db, priority=4)
    hints = sleeper.heard()
    positions = [hint["at"] for hint in hints if "at" in hint]
    assert positions == [place(db, plain), place(db, better)]
    assert len([hint for hint in hints if "at" not in hint]) == 2


def test_a_rolled_back_savepoint_takes_back_what_it_said(db: Session, sleeper: Sleeper) -> None:
    with db.transaction():
        with db.transaction(force_rollback=True):
            enqueue(db)
        id = enqueue(db)
    assert sleeper.heard() == [{"q": "default", "in": 0, "at": place(db, id)}]


def test_a_rolled_back_transaction_says_nothing(db: Session, sleeper: Sleeper) -> None:
    with db.transaction(force_rollback=True):
        enqueue(db)
    assert sleeper.heard() == []


def test_who_sleeps_is_looked_up_at_commit(db: Session, other: Session, listener: Session) -> None:
    db.execute("begin")
    id = enqueue(db)
    late = fall_asleep(other)
    ear = Ear(listener, late)
    db.execute("commit")
    assert ear.heard(db) == [{"q": "default", "in": 0, "at": place(db, id)}]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_transaction_with_an_old_snapshot_tells_everyone(db: Session, listener: Session, level: str) -> None:
    ear = Ear(listener)
    db.execute(f"begin isolation level {level}".encode())
    id = enqueue(db)
    db.execute("commit")
    assert ear.heard(db) == [{"q": "default", "in": 0, "at": place(db, id)}]


def test_poke_false_says_nothing_in_any_form(db: Session, sleeper: Sleeper) -> None:
    enqueue(db, poke=False)
    enqueue(db, delay="1 minute", poke=False)
    enqueue_many(db, [{"task": "t"}, {"task": "t"}], poke=False)
    call(db, "enqueue_batch_1", ids=[uuid4()], tasks=["t"], payloads=["{}"], poke=False)
    enqueue(db, dedup_key="k", poke=False)
    for mode in ("skip", "replace", "debounce", "rerun"):
        enqueue(db, dedup_key="k", dedup=mode, poke=False)
    enqueue_many(db, [{"task": "t"}, {"task": "t", "dedup_key": "k"}], poke=False)
    assert sleeper.heard() == []


def test_poke_false_does_not_silence_a_later_one_of_its_transaction(db: Session, sleeper: Sleeper) -> None:
    with db.transaction():
        enqueue(db, poke=False)
        id = enqueue(db)
    assert [hint["at"] for hint in sleeper.heard()] == [place(db, id)]


def test_a_skipped_twin_does_not_silence_a_later_job_of_its_transaction(db: Session, sleeper: Sleeper) -> None:
    enqueue(db, dedup_key="k")
    sleeper.heard()
    with db.transaction():
        enqueue(db, dedup_key="k")
        id = enqueue(db)
    assert [hint["at"] for hint in sleeper.heard()] == [place(db, id)]


def test_a_skipped_twin_does_not_silence_the_rest_of_its_set(db: Session, sleeper: Sleeper) -> None:
    enqueue(db, dedup_key="k")
    sleeper.heard()
    made = enqueue_many(db, [{"task": "t", "dedup_key": "k"}, *({"task": "t"} for _ in range(200))])
    [hint] = sleeper.heard()
    order = query(db, "select id from wakeful.job where id = any(%s) order by id", [r["id"] for r in made[1:]])
    assert hint["at"] == place(db, order[0]["id"])


def test_a_resent_job_among_new_ones_makes_one_poke(db: Session, sleeper: Sleeper) -> None:
    held = started(db)
    complete(db, held)
    sleeper.heard()
    enqueue_many(db, [*({"task": "t"} for _ in range(100)), {"task": "t", "id": str(held.id)}])
    assert len(sleeper.heard()) == 1


@pytest.mark.parametrize("alone", [True, False])
def test_new_jobs_beside_one_that_is_not_as_fresh_as_was_said_are_told(
    db: Session, sleeper: Sleeper, alone: bool
) -> None:
    known, new = new_ids(2)
    asked = {"tasks": ["t"], "fresh": True, "alone": alone}
    call(db, "enqueue_batch_1", ids=[known], payloads=["{}"], poke=False, **asked)
    rows = call(db, "enqueue_batch_1", ids=[known, new], payloads=["{}"] * 2, **asked)
    assert [(row["id"], row["action"]) for row in rows] == [(known, "resent")]
    [hint] = sleeper.heard()
    assert hint["at"][2] == str(new)


def test_a_replaced_job_that_is_due_sooner_is_told(db: Session, sleeper: Sleeper) -> None:
    id = enqueue(db, dedup_key="k", delay="1 hour")
    sleeper.heard()
    enqueue(db, dedup_key="k", dedup="replace", delay="1 minute")
    [hint] = sleeper.heard()
    assert 50_000 < hint["in"] <= 60_000
    enqueue(db, dedup_key="k", dedup="replace")
    assert sleeper.heard() == [{"q": "default", "in": 0, "at": place(db, id)}]


def test_whatever_makes_a_job_runnable_is_told(db: Session, sleeper: Sleeper) -> None:
    def told_position(id: UUID) -> None:
        assert [hint.get("at") for hint in sleeper.heard()] == [place(db, id)]

    held = started(db)
    sleeper.heard()
    fail(db, held, retry_in="0")
    told_position(held.id)
    call(db, "release", **claim_one(db).fence)
    told_position(held.id)
    call(db, "snooze", **claim_one(db).fence, delay="1 minute")
    [hint] = sleeper.heard()
    assert 50_000 < hint["in"] <= 60_000
    value(db, "retry_now", id=held.id)
    told_position(held.id)
    fail(db, claim_one(db, lease="1 second"), no_retry=True)
    told_position(value(db, "requeue", id=held.id))
    lapsing = claim_one(db, lease="1 second")
    shift_clock(db, "2 seconds")
    value(db, "rescue")
    told_position(lapsing.id)


def test_a_rerun_is_told_when_it_starts(db: Session, sleeper: Sleeper) -> None:
    held = started(db, dedup_key="k")
    following = enqueue(db, dedup_key="k", dedup="rerun")
    sleeper.heard()
    complete(db, held)
    assert [hint["at"] for hint in sleeper.heard()] == [place(db, following)]


def test_a_worker_that_leaves_hands_its_jobs_on(db: Session, sleeper: Sleeper) -> None:
    worker = register(db)
    id = enqueue(db)
    worker_claim(db, worker)
    sleeper.heard()
    call(db, "leave_1", worker_id=worker)
    assert [hint["at"] for hint in sleeper.heard()] == [place(db, id)]


def test_a_claim_declares_its_sleep_and_a_full_one_its_waking(db: Session) -> None:
    worker = register(db)

    def asleep() -> list[list[str] | None]:
        return [row["queues"] for row in query(db, "select queues from wakeful.sleeper")]

    worker_claim(db, worker, queues=["a", "b"], sleeps="these")
    assert asleep() == [["a", "b"]]
    worker_claim(db, worker, queues=["a", "b"], sleeps="all")
    assert asleep() == [None]
    worker_claim(db, worker, queues=["a", "b"])
    assert asleep() == [None], "nothing was declared"
    enqueue(db, queue="a")
    worker_claim(db, worker, queues=["a", "b"], want=1, sleeps="all")
    assert asleep() == []


def test_a_claim_that_leaves_more_behind_passes_the_poke_on(db: Session, sleeper: Sleeper) -> None:
    worker = register(db)
    enqueue_many(db, [{"task": "t"} for _ in range(3)])
    sleeper.heard()
    worker_claim(db, worker, want=1, pass_on=True)
    assert sleeper.heard() == [{"q": "default", "in": 0}]
    worker_claim(db, worker, want=2, pass_on=True)
    assert sleeper.heard() == [], "nothing is left"


def test_a_claim_that_passes_the_poke_on_does_not_choose_itself(db: Session, listener: Session) -> None:
    """Two others sleep: with itself among those to choose from, one of them would be left out now and then."""
    others = [fall_asleep(db), fall_asleep(db)]
    ears = Ear(listener, *others)
    for _ in range(10):
        taker = register(db)
        worker_claim(db, taker, sleeps="all")
        enqueue_many(db, [{"task": "t"}, {"task": "t"}])
        ears.heard(db)
        worker_claim(db, taker, want=1, pass_on=True, sleeps="all")
        assert len(ears.heard(db)) == 2
        db.execute("delete from wakeful.job")


def test_the_pulse_of_a_worker_without_a_free_slot_pokes_who_has_one(db: Session, sleeper: Sleeper) -> None:
    busy = register(db)
    enqueue(db, poke=False)
    arguments = {"lease": "1 minute", "canary": None, "queues": ["default"], "lanes": [1], "tasks": ["t"]}
    call(db, "pulse_1", worker_id=busy, limits=[0], **arguments)
    [hint] = sleeper.heard()
    assert (hint["q"], hint["in"]) == ("default", 0)


def test_a_poke_that_is_passed_on_names_the_queue_in_which_more_waits(db: Session, listener: Session) -> None:
    worker = register(db)
    picky = fall_asleep(db, ["b"])
    ear = Ear(listener, picky)
    for _ in range(2):
        enqueue(db, queue="b")
    ear.heard(db)
    worker_claim(db, worker, queues=["a", "b"], want=1, pass_on=True)
    assert [hint["q"] for hint in ear.heard(db)] == ["b"]


def test_a_hint_fits_into_a_notification_whatever_the_queue_is_called(db: Session, sleeper: Sleeper) -> None:
    name = '"\\' * 50
    enqueue(db, queue=name)
    [hint] = sleeper.heard()
    assert hint["q"] == name
    assert len(json.dumps(hint)) < 8000


def test_what_a_client_has_set_cannot_break_the_poke(db: Session, sleeper: Sleeper) -> None:
    db.execute("set wakeful.spoken = ''")
    enqueue(db)
    assert len(sleeper.heard()) == 1
    assert scalar(db, "select current_setting('wakeful.spoken')") == ""
    assert job(db, claim(db)[0].id)["state"] == "running"


def test_a_poke_goes_to_those_who_have_the_task(db: Session, listener: Session) -> None:
    """Of many that serve the queue, only who can take the job is woken: an older release may not know it yet."""
    knows = register(db, tasks=["new"])
    for worker in [register(db, tasks=["old"]) for _ in range(6)]:
        worker_claim(db, worker, tasks=["old"], sleeps="these")
    worker_claim(db, knows, tasks=["new"], sleeps="these")
    ear = Ear(listener, knows)
    for _ in range(3):
        enqueue(db, "new")
        assert len(ear.heard(db)) == 1
