"""`promote`, `expire` and `rescue`: what time brings about."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from psycopg import sql

from tests.sessions import LAPSED, Session, call, query, scalar, shift_clock, sqlstate_of, value
from tests.verbs import (
    Held,
    claim_one,
    complete,
    enqueue,
    enqueue_many,
    fail,
    job,
    register,
    started,
    state_of,
    states,
    stats,
    worker_claim,
)


def promote(db: Session, **options: object) -> object:
    return value(db, "promote", **{"queues": ["default"], "tasks": ["t"], **options})


def test_a_due_job_becomes_ready_behind_what_is_in_line(db: Session) -> None:
    due = enqueue(db, delay="1 second")
    shift_clock(db, "2 seconds")
    waiting = enqueue(db)
    assert promote(db) == 1
    assert job(db, due)["ready_at"] > job(db, waiting)["ready_at"]
    assert promote(db) == 0


def test_only_due_jobs_of_the_named_queues_and_tasks_are_promoted(db: Session) -> None:
    enqueue(db, delay="1 hour")
    enqueue(db, "other", delay="1 second")
    enqueue(db, queue="other", delay="1 second")
    shift_clock(db, "2 seconds")
    assert promote(db) == 0
    assert promote(db, queues=["other", "default"], tasks=["t", "other"]) == 2
    assert stats(db) == {"scheduled": 1, "ready": 2}


def test_promotion_takes_the_first_due_first_and_no_more_than_asked(db: Session) -> None:
    late, early = enqueue(db, delay="2 seconds"), enqueue(db, delay="1 second")
    shift_clock(db, "3 seconds")
    assert promote(db, most=1) == 1
    assert (state_of(db, early), state_of(db, late)) == ("ready", "scheduled")


def test_promotion_leaves_rows_that_someone_holds(db: Session, other: Session) -> None:
    held, free = enqueue(db, delay="1 second"), enqueue(db, delay="1 second")
    shift_clock(db, "2 seconds")
    with other.transaction():
        scalar(other, "select id from wakeful.job where id = %s for update", held)
        assert promote(db) == 1
    assert (state_of(db, held), state_of(db, free)) == ("scheduled", "ready")
    assert promote(db) == 1


def test_waiting_jobs_that_expired_are_cancelled_and_running_ones_are_not(db: Session) -> None:
    running = started(db, expires_at=scalar(db, "select wakeful.now() + interval '10 seconds'"))
    until = scalar(db, "select wakeful.now() + interval '5 seconds'")
    ready = enqueue(db, expires_at=until)
    scheduled = enqueue(db, expires_at=until, delay="1 hour")
    good = enqueue(db, delay="1 hour")
    assert value(db, "expire") == 0
    shift_clock(db, "20 seconds")
    assert value(db, "expire") == 2
    assert states(db) == {
        running.id: "running",
        ready: "cancelled",
        scheduled: "cancelled",
        good: "scheduled",
    }
    assert {job(db, id)["cancel_reason"] for id in (ready, scheduled)} == {"expired"}
    complete(db, running)


def test_a_job_that_was_started_while_it_expired_runs_on(db: Session) -> None:
    """The look for expired jobs and their cancelling are two statements: a claim may come between."""
    running = started(db, expires_at=scalar(db, "select wakeful.now() + interval '1 second'"))
    shift_clock(db, "2 seconds")
    assert scalar(db, "select wakeful.expire_rows(%s, wakeful.now())", [running.id]) == 0
    complete(db, running)


def test_expiring_takes_no_more_than_asked_and_leaves_held_rows(db: Session, other: Session) -> None:
    enqueue_many(db, [{"task": "t", "expires_at": "2001-01-01"} for _ in range(5)])
    with other.transaction():
        query(other, "select from wakeful.job order by id limit 1 for update")
        assert value(db, "expire", most=2) in (1, 2)
        assert value(db, "expire") in (2, 3)
        assert value(db, "expire") == 0
    assert value(db, "expire") == 1


def test_a_job_whose_own_lease_lapsed_is_ready_again_and_its_start_counts(db: Session) -> None:
    held = started(db, lease="10 seconds")
    shift_clock(db, "9 seconds")
    assert value(db, "rescue") == 0
    shift_clock(db, "2 seconds")
    assert value(db, "rescue") == 1
    back = job(db, held.id)
    assert (back["state"], back["attempt"], back["epoch"], back["worker_id"]) == ("ready", 1, 1, None)
    assert back["last_error_code"] == "lease_lapsed"
    assert claim_one(db).epoch == 2


def test_a_lapse_on_the_last_start_makes_a_dead_letter_with_the_original_job(db: Session) -> None:
    held = started(db, max_attempts=1, payload={"n": None}, lease="1 second")
    shift_clock(db, "2 seconds")
    assert value(db, "rescue") == 1
    [letter] = query(db, "select * from wakeful.dead_letters")
    assert (letter["id"], letter["error_code"]) == (held.id, "lease_lapsed")
    assert letter["payload"] == {"n": None}
    assert letter["original_job"]["worker_id"] == str(held.worker_id)
    assert [entry["outcome"] for entry in letter["original_job"]["attempts"]] == ["lapsed"]


def test_the_jobs_of_a_lapsed_worker_are_ready_again_and_the_worker_is_gone(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    ids = {enqueue(db) for _ in range(3)}
    worker_claim(db, worker, sleeps="all")
    shift_clock(db, "9 seconds")
    assert value(db, "rescue") == 0
    shift_clock(db, "2 seconds")
    assert value(db, "rescue") == 3
    assert states(db) == dict.fromkeys(ids, "ready")
    assert query(db, "select from wakeful.worker") == []
    assert query(db, "select from wakeful.sleeper") == []


def test_a_worker_that_beats_keeps_its_jobs(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    enqueue(db)
    worker_claim(db, worker)
    for _ in range(3):
        shift_clock(db, "8 seconds")
        assert value(db, "beat_1", worker_id=worker, lease="10 seconds") is True
        assert value(db, "rescue") == 0


def test_a_job_with_a_lease_of_its_own_lives_by_that_one(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    leased = enqueue(db)
    worker_claim(db, worker, lease="1 hour")
    plain = enqueue(db)
    worker_claim(db, worker)
    shift_clock(db, "11 seconds")
    assert value(db, "rescue") == 1
    assert states(db) == {leased: "running", plain: "ready"}
    shift_clock(db, "1 hour")
    assert value(db, "rescue") == 1


def test_a_rescue_takes_no_more_than_asked_and_the_worker_stays_until_all_are_back(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    enqueue_many(db, [{"task": "t"} for _ in range(5)])
    worker_claim(db, worker)
    shift_clock(db, "11 seconds")
    assert [value(db, "rescue", most=2) for _ in range(4)] == [2, 2, 1, 0]
    assert query(db, "select from wakeful.worker") == []


def test_a_job_whose_row_someone_holds_is_left_for_the_next_call(db: Session, other: Session) -> None:
    worker = register(db, lease="10 seconds")
    enqueue_many(db, [{"task": "t"} for _ in range(2)])
    [first, _], _ = worker_claim(db, worker)
    shift_clock(db, "11 seconds")
    with other.transaction():
        scalar(other, "select id from wakeful.job where id = %s for update", first.id)
        assert value(db, "rescue") == 1
        assert len(query(db, "select from wakeful.worker")) == 1
    assert value(db, "rescue") == 1
    assert query(db, "select from wakeful.worker") == []


def test_a_job_that_takes_its_worker_down_alone_dies_on_its_last_start(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    id = enqueue(db, max_attempts=1)
    worker_claim(db, worker)
    shift_clock(db, "11 seconds")
    assert value(db, "rescue") == 1
    assert (state_of(db, id), job(db, id)["last_error_code"]) == ("dead", "worker_crashed")


def test_a_job_that_takes_its_worker_down_alone_three_times_is_dead(db: Session) -> None:
    id = enqueue(db, max_attempts=100)
    for crash in (1, 2, 3):
        worker = register(db, lease="10 seconds")
        taken, _ = worker_claim(db, worker, alone=crash > 1)
        assert [held.id for held in taken] == [id]
        shift_clock(db, "11 seconds")
        assert value(db, "rescue") == 1
    assert state_of(db, id) == "dead"


def test_jobs_that_crashed_together_twice_run_alone(db: Session) -> None:
    ids = {enqueue(db) for _ in range(2)}
    for _ in range(2):
        worker = register(db, lease="10 seconds")
        assert {held.id for held in worker_claim(db, worker)[0]} == ids
        shift_clock(db, "11 seconds")
        assert value(db, "rescue") == 2
    healthy = enqueue(db)
    worker = register(db)
    taken, report = worker_claim(db, worker)
    assert [held.id for held in taken] == [healthy]
    assert report["suspects"] is True
    assert len(worker_claim(db, worker, want=1, alone=True)[0]) == 1


def test_a_cancelled_job_of_a_lapsed_worker_is_cancelled(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    id = enqueue(db)
    worker_claim(db, worker)
    call(db, "cancel", id=id, reason="enough")
    shift_clock(db, "11 seconds")
    assert value(db, "rescue") == 1
    assert (state_of(db, id), job(db, id)["cancel_reason"]) == ("cancelled", "enough")


def test_a_claim_cannot_lapse_between_its_two_looks_at_the_clock(own: Session) -> None:
    """A worker whose lease ends within its own claim must not take back its jobs and take more.

    Its row would be gone, and with it the lease that the new jobs live by: nobody would ever rescue them.
    """
    worker = register(own, lease="1 hour")
    enqueue(own)
    own.execute("create sequence public.ticks")
    lapse = scalar(own, "select lease_expires_at from wakeful.worker where id = %s", worker)

    def claim_in_a_savepoint() -> None:
        with own.transaction():
            worker_claim(own, worker)

    for reads_before_the_lapse in range(1, 12):
        own.execute("alter sequence public.ticks restart")
        own.execute(
            sql.SQL(
                "create or replace function wakeful.now() returns timestamptz language sql volatile return"
                " {}::timestamptz + (nextval('public.ticks') - 1 - {}) * interval '1 microsecond'"
            ).format(sql.Literal(lapse), sql.Literal(reads_before_the_lapse))
        )
        with own.transaction(force_rollback=True):
            assert sqlstate_of(claim_in_a_savepoint) in (None, LAPSED)
            orphans = query(
                own,
                "select id from wakeful.job j where state = 2 and lease_expires_at is null"
                " and not exists (select from wakeful.worker w where w.id = j.worker_id)",
            )
            assert orphans == [], f"after {reads_before_the_lapse} looks"


def test_rescue_and_promotion_are_idempotent(db: Session) -> None:
    held = started(db, lease="1 second")
    shift_clock(db, "2 seconds")
    assert [value(db, "rescue") for _ in range(3)] == [1, 0, 0]
    fail(db, claim_one(db), retry_in="1 second")
    shift_clock(db, "2 seconds")
    assert [promote(db) for _ in range(3)] == [1, 0, 0]
    assert job(db, held.id)["attempt"] == 2
    assert uuid4() not in states(db)


def two_in_one_worker(db: Session) -> tuple[UUID, Held, Held]:
    """A worker with a lease of ten seconds, and two jobs that it runs."""
    worker = register(db, lease="10 seconds")
    for _ in range(2):
        enqueue(db)
    (first, second), _ = worker_claim(db, worker, want=2)
    return worker, first, second


def give_own_lease(db: Session, held: Held) -> None:
    """Five seconds, whatever its worker has."""
    db.execute(
        "update wakeful.job set lease_expires_at = wakeful.now() + interval '5 seconds' where id = %s", [held.id]
    )


def test_a_job_whose_company_had_a_lease_of_its_own_was_not_alone(db: Session) -> None:
    _, first, second = two_in_one_worker(db)
    give_own_lease(db, first)
    shift_clock(db, "11 seconds")
    value(db, "rescue")
    assert query(db, "select crashes, suspect from wakeful.job where id = %s", second.id) == [
        {"crashes": 0, "suspect": False}
    ]


@pytest.mark.parametrize("beats", [False, True])
def test_company_that_was_taken_back_earlier_counts_if_the_worker_was_not_heard_of_since(
    db: Session, beats: bool
) -> None:
    worker, first, second = two_in_one_worker(db)
    give_own_lease(db, first)
    shift_clock(db, "6 seconds")
    value(db, "rescue")
    if beats:
        assert value(db, "beat_1", worker_id=worker, lease="10 seconds")
    shift_clock(db, "11 seconds")
    value(db, "rescue")
    assert scalar(db, "select crashes from wakeful.job where id = %s", second.id) == (1 if beats else 0)


def test_a_job_that_is_rescued_later_than_its_company_was_not_alone(db: Session, other: Session) -> None:
    _, _, second = two_in_one_worker(db)
    shift_clock(db, "11 seconds")
    other.execute("begin")
    other.execute("select from wakeful.job where id = %s for update", [second.id])
    assert value(db, "rescue") == 1
    other.execute("rollback")
    assert value(db, "rescue") == 1
    assert query(db, "select crashes, shared_crashes from wakeful.job where id = %s", second.id) == [
        {"crashes": 0, "shared_crashes": 1}
    ]
