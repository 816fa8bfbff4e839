"""Handing over: a job begins as a sleeping worker's, in the commit that enqueues it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.sessions import LAPSED, Ear, Session, call, query, refusal, scalar, session, shift_clock, until
from tests.verbs import Held, claim, complete, enqueue_one, fall_asleep, job, register, started, state_of, worker_claim
from wakeful.testing import Database
from wakeful.values.identity import new_id
from wakeful.values.job import handed_job

CHANNEL = "wakeful_a_secret"


@pytest.fixture
def listener(kept_database: Database) -> Iterator[Session]:
    with session(kept_database.dsn) as conn:
        yield conn


@pytest.fixture
def taker(db: Session, listener: Session) -> UUID:
    """A registered worker that sleeps, listens and takes jobs."""
    worker = register(db)
    attend(listener, worker)
    worker_claim(db, worker, sleeps="all", takes=CHANNEL)
    return worker


def attend(listener: Session, worker: UUID) -> None:
    call(listener, "attend_1", worker_id=worker, channel=CHANNEL)


def told(listener: Session, sender: Session) -> list[Any]:
    """What was sent on the worker's own channel since the last call."""
    sender.execute("select pg_notify(%s, '\"end\"')", [CHANNEL])
    heard: list[Any] = []
    for notice in listener.notifies(timeout=60):
        if notice.channel == CHANNEL and notice.payload == '"end"':
            return heard
        heard.append(json.loads(notice.payload))
    raise AssertionError("the listener hears nothing")


def handed(db: Session, **options: Any) -> Held:
    """A job that is handed over."""
    id = new_id()
    assert enqueue_one(db, id=id, **options) is None
    row = job(db, id)
    assert row["state"] == "running", "it was not handed over"
    return Held(id, row["epoch"], row["worker_id"], row)


def accept(db: Session, held: Held, *, enough: bool = False) -> str | None:
    rows = call(db, "accept_1", worker_id=held.worker_id, ids=[held.id], epochs=[held.epoch], enough=enough)
    return rows[0]["refused"] if rows else None


def takes(db: Session, worker: UUID) -> str | None:
    [row] = query(db, "select takes from wakeful.sleeper where worker_id = %s", worker)
    channel: str | None = row["takes"]
    return channel


def test_a_job_is_the_sleepers_from_the_start(db: Session, taker: UUID) -> None:
    held = handed(db)
    row = job(db, held.id)
    assert (row["worker_id"], row["attempt"], row["epoch"]) == (taker, 1, 1)
    assert row["started_at"] == row["created_at"]
    assert row["lease_expires_at"] - row["started_at"] == timedelta(seconds=5)


def test_the_worker_is_told_all_that_a_claim_would_tell(db: Session, taker: UUID, listener: Session) -> None:
    parent, correlation = new_id(), new_id()
    held = handed(
        db,
        payload={"text": 'a "quoted" one\n', "n": 7},
        queue="mail",
        priority=3,
        max_attempts=9,
        tenant="acme",
        correlation_id=correlation,
        parent_id=parent,
        created_by="someone",
        metadata={"a": 1},
    )
    [heard] = told(listener, db)
    job_told = handed_job(heard, taker)
    assert (job_told.id, job_told.task, job_told.queue, job_told.worker_id) == (held.id, "t", "mail", taker)
    assert json.loads(job_told.payload) == {"text": 'a "quoted" one\n', "n": 7}
    assert (job_told.attempt, job_told.max_attempts, job_told.epoch, job_told.priority) == (1, 9, 1, 3)
    assert (job_told.correlation_id, job_told.parent_id, job_told.origin_id) == (correlation, parent, None)
    assert (job_told.tenant, job_told.created_by, json.loads(job_told.metadata or "")) == ("acme", "someone", {"a": 1})
    assert job_told.started_at == job_told.ready_at == job_told.created_at == held.row["started_at"]
    assert (job_told.attempts, job_told.saved) == (None, None)


def test_a_job_without_a_correlation_of_its_own_is_told_so(db: Session, taker: UUID, listener: Session) -> None:
    held = handed(db)
    [heard] = told(listener, db)
    assert handed_job(heard, taker).correlation_id == held.id


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 1},
        {"delay": "1 second"},
        {"run_at": "2000-01-01 00:00:00+00"},
        {"expires_at": "9000-01-01 00:00:00+00"},
        {"alone": False},
        {"poke": False},
        {"fresh": False},
        {"dedup_key": "k"},
        {"task": "another"},
        {"payload": {"long": "x" * 8000}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_is_special_comes_into_line(db: Session, taker: UUID, options: dict[str, Any]) -> None:
    id = new_id()
    enqueue_one(db, id=id, **options)
    assert state_of(db, id) in ("ready", "scheduled")


@pytest.mark.parametrize("said", ["task paused", "queue paused", "task limited", "queue limited"])
def test_what_something_is_said_of_comes_into_line(db: Session, taker: UUID, said: str) -> None:
    match said:
        case "task paused":
            call(db, "pause_task", name="t")
        case "queue paused":
            call(db, "pause_queue", name="default")
        case "task limited":
            call(db, "set_task_policy", task="t", concurrency=1)
        case _:
            call(db, "set_queue_policy", queue="default", concurrency=1)
    id = new_id()
    enqueue_one(db, id=id)
    assert state_of(db, id) == "ready"


def test_a_worker_that_does_not_take_jobs_is_poked(db: Session, listener: Session) -> None:
    worker = register(db)
    attend(listener, worker)
    worker_claim(db, worker, sleeps="all")
    id = new_id()
    assert enqueue_one(db, id=id) == [str(id), "ahead"]
    assert state_of(db, id) == "ready"


def test_a_worker_whose_listener_is_gone_is_handed_nothing(db: Session, taker: UUID, listener: Session) -> None:
    pid, id = listener.info.backend_pid, new_id()
    listener.close()
    until(lambda: not query(db, "select from pg_stat_activity where pid = %s", pid))
    enqueue_one(db, id=id)
    assert state_of(db, id) == "ready"


def test_a_worker_is_handed_the_next_job_once_it_has_confirmed_the_last(db: Session, taker: UUID) -> None:
    first, second = handed(db), new_id()
    enqueue_one(db, id=second)
    assert state_of(db, second) == "ready", "for all that is known, the worker has died"
    assert accept(db, first) is None
    handed(db)


def test_a_worker_that_settled_without_confirming_is_handed_the_next_job(db: Session, taker: UUID) -> None:
    complete(db, handed(db))
    handed(db)


def test_two_slots_are_left_to_who_is_handed_jobs(db: Session, taker: UUID) -> None:
    for slots, offered in ((2, CHANNEL), (1, None), (2, CHANNEL)):
        worker_claim(db, taker, want=slots, sleeps="all", takes=CHANNEL)
        assert takes(db, taker) == offered
    worker_claim(db, taker, want=5, free=[1], sleeps="all", takes=CHANNEL)
    assert takes(db, taker) is None, "the others are held ready behind busy ones"


def test_a_worker_that_runs_a_suspect_alone_is_handed_nothing(db: Session, taker: UUID) -> None:
    worker_claim(db, taker, want=1, alone=True)
    assert takes(db, taker) is None


def test_who_takes_again_need_not_look_again(db: Session, taker: UUID) -> None:
    worker_claim(db, taker, sleeps="all", takes=CHANNEL)
    _, report = worker_claim(db, taker, want=1, sleeps="all", takes=CHANNEL)
    assert report["due_in"] > 1, "it was poked all the time"


def test_a_confirmed_job_lives_by_its_workers_lease(db: Session, taker: UUID) -> None:
    held = handed(db)
    assert accept(db, held) is None
    assert query(db, "select from wakeful.job where id = %s and lease_expires_at is null", held.id)
    shift_clock(db, "10 seconds")
    worker_claim(db, register(db))
    assert job(db, held.id)["worker_id"] == taker


def test_a_lease_that_the_task_gave_it_meanwhile_stays(db: Session, taker: UUID) -> None:
    held = handed(db)
    call(db, "extend", **held.fence, lease="10 minutes")
    given = job(db, held.id)["lease_expires_at"]
    assert accept(db, held) is None
    assert job(db, held.id)["lease_expires_at"] == given


def test_who_has_enough_is_handed_no_more(db: Session, taker: UUID) -> None:
    assert accept(db, handed(db), enough=True) is None
    assert takes(db, taker) is None
    id = new_id()
    assert enqueue_one(db, id=id) == [str(id), "ahead"], "it is poked still"


def test_a_job_that_nobody_confirms_is_anothers_after_five_seconds(db: Session, taker: UUID) -> None:
    held = handed(db)
    shift_clock(db, "5 seconds")
    [again], _ = worker_claim(db, register(db))
    assert (again.id, again.epoch) == (held.id, 2)
    assert again.row["attempt"] == 2, "it may have been started"
    assert accept(db, held) == "stale"
    assert takes(db, taker) is None, "until it says so"


def test_that_nobody_confirmed_it_is_told(db: Session, taker: UUID) -> None:
    held = handed(db)
    shift_clock(db, "5 seconds")
    worker_claim(db, register(db))
    [attempt] = job(db, held.id)["attempts"]
    assert (attempt["outcome"], attempt["code"]) == ("lapsed", "lease_lapsed")


def test_another_sleeper_looks_when_the_lease_is_over(db: Session, other: Session, taker: UUID) -> None:
    ear = Ear(other, fall_asleep(db))
    handed(db)
    [hint] = ear.heard(db)
    assert hint["q"] == "default"
    assert 4000 < hint["in"] <= 5000


def test_what_was_settled_in_a_transaction_of_the_handlers_is_not_lost(db: Session, taker: UUID) -> None:
    held = handed(db)
    complete(db, held)
    assert accept(db, held) == "settled"


def test_a_job_whose_row_somebody_holds_is_confirmed_later(db: Session, other: Session, taker: UUID) -> None:
    held = handed(db)
    with other.transaction():
        other.execute("select from wakeful.job where id = %s for update", [held.id])
        assert accept(db, held) == "locked"
    assert accept(db, held) is None


def test_a_lapsed_worker_confirms_nothing(db: Session, taker: UUID) -> None:
    held = handed(db)
    shift_clock(db, "2 hours")
    with refusal(LAPSED):
        accept(db, held)


def test_what_a_worker_does_not_want_goes_back_uncharged(db: Session, taker: UUID) -> None:
    held = handed(db)
    call(db, "release", **held.fence)
    row = job(db, held.id)
    assert (row["state"], row["attempt"], row["epoch"]) == ("ready", 0, 1)


def test_a_worker_that_leaves_gives_back_what_it_was_handed(db: Session, taker: UUID) -> None:
    held = handed(db)
    call(db, "leave_1", worker_id=taker)
    assert job(db, held.id)["attempt"] == 0
    [again] = claim(db, tasks=["t"])
    assert again.id == held.id


def test_chance_decides_among_those_who_take_jobs(db: Session, taker: UUID, listener: Session) -> None:
    others = [register(db) for _ in range(3)]
    for worker in others:
        attend(listener, worker)
        worker_claim(db, worker, sleeps="all", takes=CHANNEL)
    fall_asleep(db)
    holders = set()
    for _ in range(60):
        held = handed(db)
        holders.add(held.worker_id)
        complete(db, held)
    assert holders == {taker, *others}


def test_the_attending_session_is_known_only_while_it_lives(db: Session, listener: Session) -> None:
    worker = uuid4()
    attend(listener, worker)
    held = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"
    assert scalar(db, held, listener.info.backend_pid) == 1


def test_a_job_that_runs_is_not_handed_over(db: Session, taker: UUID) -> None:
    """Its id is known: the second enqueue is the first one, sent again."""
    held = started(db)
    assert enqueue_one(db, id=held.id, fresh=False) == [str(held.id), "resent"]
