"""The report of a claim: when there is something to look for again."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from tests.sessions import Ear, Session, call, scalar, session, shift_clock, value
from tests.verbs import claim_one, enqueue, enqueue_many, register, started, worker_claim
from wakeful.testing import Database


def due_in(db: Session, worker: UUID, **options: object) -> float | None:
    _, report = worker_claim(db, worker, **options)  # type: ignore[arg-type]
    assert report["id"] is None
    due: float | None = report["due_in"]
    return due


def lone_claim(db: Session, **options: object) -> float | None:
    """What a claim reports that needs no registered worker, so that nobody's lease is due."""
    return due_in(db, uuid4(), lease="1 hour", **options)


def test_nothing_known_is_null(db: Session) -> None:
    assert lone_claim(db) is None


def test_the_next_scheduled_job_is_due_when_it_says(db: Session) -> None:
    enqueue(db, delay="1 hour")
    enqueue(db, delay="10 seconds")
    due = lone_claim(db)
    assert due is not None
    assert 5 < due <= 10


def test_only_what_the_claim_may_take_counts(db: Session) -> None:
    enqueue(db, "other", delay="10 seconds")
    enqueue(db, "t", queue="elsewhere", delay="10 seconds")
    assert lone_claim(db) is None


def test_what_is_paused_does_not_count(db: Session) -> None:
    enqueue(db, delay="10 seconds")
    value(db, "pause_task", name="t")
    assert lone_claim(db) is None
    value(db, "resume_task", name="t")
    value(db, "pause_queue", name="default")
    assert lone_claim(db) is None


def test_what_is_overdue_but_held_by_another_is_not_due_again(db: Session, other: Session) -> None:
    """Else the claimer would come back at once, for as long as the other holds it."""
    id = enqueue(db, delay="1 second")
    shift_clock(db, "2 seconds")
    with other.transaction():
        call(other, "cancel", id=id)
        assert lone_claim(db) is None


def test_it_is_always_in_the_future(db: Session) -> None:
    for milliseconds in range(1, 30):
        enqueue(db, delay=f"{milliseconds} milliseconds")
    for _ in range(30):
        due = lone_claim(db, want=0)
        assert due is None or due > 0
        due = due_in(db, uuid4(), lease="1 hour", tend=False)
        assert due is None or due > 0


def test_a_lease_that_will_lapse_is_due(db: Session) -> None:
    started(db, "other", lease="30 seconds")
    due = lone_claim(db)
    assert due is not None
    assert 20 < due <= 30
    shift_clock(db, "31 seconds")
    assert lone_claim(db) is None


def test_a_worker_that_holds_a_job_and_will_lapse_is_due(db: Session) -> None:
    worker = register(db, lease="40 seconds")
    enqueue(db)
    assert len(worker_claim(db, worker)[0]) == 1
    due = lone_claim(db)
    assert due is not None
    assert 30 < due <= 40


def test_a_worker_that_holds_nothing_wakes_nobody_between_two_pulses(db: Session) -> None:
    """Nothing is to be rescued, and it renews in time: seed 0 of the simulation, where a fleet woke for each other."""
    register(db, lease="40 seconds")
    due = lone_claim(db)
    assert due is not None
    assert 50 < due <= 60


def test_a_full_claim_needs_no_next_time(db: Session) -> None:
    enqueue_many(db, [{"task": "t"} for _ in range(3)])
    enqueue(db, delay="10 seconds")
    assert lone_claim(db, want=3) is None


def test_a_short_claim_that_saw_rows_it_could_not_lock_comes_back_in_a_second(db: Session, other: Session) -> None:
    id = enqueue(db)
    with other.transaction():
        scalar(other, "select id from wakeful.job where id = %s for update", id)
        assert 1 <= (lone_claim(db) or 0) < 60
    assert claim_one(db).id == id


@pytest.mark.parametrize("limited", [False, True])
def test_what_falls_due_after_the_claim_has_looked_for_it_is_told(own: Session, limited: bool) -> None:
    worker = register(own)
    enqueue(own)
    if limited:
        value(own, "set_task_policy", task="t", rate=1, per="1 minute", burst=1)
        enqueue(own)
    else:
        enqueue(own, delay="1 minute")
    # Two minutes pass while the first one is being taken.
    own.execute(
        "create or replace function wakeful.now() returns timestamptz language sql volatile as $$"
        "select clock_timestamp() + coalesce(current_setting('test.ahead', true), '0 s')::interval $$;"
        "create function late() returns trigger language plpgsql as $$"
        "begin perform set_config('test.ahead', '2 minutes', false); return new; end $$;"
        "create trigger late before update on wakeful.job for each row execute function late()"
    )
    assert 50 < (due_in(own, worker, want=2) or 0) < 70


def test_a_claim_that_promoted_as_much_as_it_may_comes_back_at_once(db: Session) -> None:
    enqueue_many(db, [{"task": "t", "delay": "1 second"} for _ in range(1001)])
    shift_clock(db, "2 seconds")
    worker = register(db)
    assert due_in(db, worker, want=1) == 0
    assert due_in(db, worker, want=1) != 0


def test_a_full_worker_that_minds_the_clock_promotes_what_falls_due_and_pokes_who_has_slots(
    db: Session, kept_database: Database
) -> None:
    """A job that is due must not wait for a pulse because the workers with the least ids are busy."""
    fleet = sorted(register(db) for _ in range(3))
    enqueue_many(db, [{"task": "t"} for _ in range(2)])
    for busy in fleet[:2]:
        assert len(worker_claim(db, busy, want=1, sleeps="all")[0]) == 1
    worker_claim(db, fleet[2], sleeps="all")
    id = enqueue(db, delay="10 seconds", poke=False)
    for busy in fleet[:2]:
        due = due_in(db, busy, want=0, sleeps="all")
        assert due is not None
        assert due <= 10
    shift_clock(db, "11 seconds")
    with session(kept_database.dsn) as listener:
        ear = Ear(listener, fleet[2])
        worker_claim(db, fleet[0], want=0, sleeps="all")
        assert ear.heard(db) == [{"q": "default", "in": 0}]
    assert [held.id for held in worker_claim(db, fleet[2])[0]] == [id]


def test_of_many_idle_workers_two_mind_the_clock_and_four_stand_behind_them(db: Session) -> None:
    enqueue(db, delay="1 hour")
    fleet = [register(db) for _ in range(8)]
    for _ in range(2):
        told = [due_in(db, worker, sleeps="all") for worker in fleet]
    waits = sorted(seconds for seconds in told if seconds is not None)
    assert len(waits) == 6
    late = [round(seconds - waits[0]) for seconds in waits]
    assert late == [0, 0, 1, 1, 2, 2]
