"""`wakeful.claim` and `wakeful.claim_1`: who gets what, in which order."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from tests.sessions import INVALID, LAPSED, Session, call, query, refusal, scalar, shift_clock, value
from tests.verbs import (
    claim,
    claim_one,
    enqueue,
    enqueue_many,
    job,
    position,
    register,
    state_of,
    stats,
    worker_claim,
)


def test_a_claim_counts_the_start_raises_the_epoch_and_names_the_holder(db: Session) -> None:
    id = enqueue(db, "t", {"n": 1}, tenant="acme", metadata={"m": 1})
    worker = uuid4()
    held = claim_one(db, worker, lease="10 minutes")
    running = job(db, id)
    assert (held.id, held.epoch) == (id, 1)
    assert (held.row["payload"], held.row["tenant"], held.row["metadata"]) == ({"n": 1}, "acme", {"m": 1})
    assert (running["state"], running["attempt"], running["epoch"]) == ("running", 1, 1)
    assert running["worker_id"] == worker
    assert running["lease_expires_at"] - running["started_at"] == timedelta(minutes=10)


def test_the_order_is_priority_then_time_of_becoming_ready_then_id(db: Session) -> None:
    scheduled = enqueue(db, delay="1 minute", priority=5)
    first = [enqueue(db, priority=priority) for priority in (0, 5, -100, 100, 5)]
    shift_clock(db, "2 minutes")
    low, high, last, top, second_high = first
    late = enqueue(db, priority=5)
    taken = [held.id for held in claim(db, want=10)]
    # The scheduled one is promoted by this very claim, and lines up behind what was ready before.
    assert taken == [top, high, second_high, late, scheduled, low, last]


def test_jobs_that_became_ready_together_go_by_id(db: Session) -> None:
    made = enqueue_many(db, [{"task": "t", "id": str(uuid4())} for _ in range(20)])
    assert [held.id for held in claim(db, want=20)] == sorted(row["id"] for row in made)


def test_several_queues_are_one_line(db: Session) -> None:
    ids = [enqueue(db, queue=queue) for queue in ("b", "a", "c", "a", "b")]
    assert [held.id for held in claim(db, want=10, queues=["a", "b", "c"])] == ids


def test_only_named_queues_and_tasks_are_taken(db: Session) -> None:
    ids = {(q, t): enqueue(db, t, queue=q) for q in ("q1", "q2") for t in ("t1", "t2")}
    taken = claim(db, want=10, queues=["q1"], tasks=["t2"])
    assert [held.id for held in taken] == [ids["q1", "t2"]]
    assert claim(db, want=10, queues=[], tasks=["t1"]) == []
    assert claim(db, want=10, queues=["q1"], tasks=[]) == []
    assert stats(db) == {"ready": 3, "running": 1}


def test_null_stands_for_all_queues_and_tasks(db: Session) -> None:
    for n in range(6):
        enqueue(db, f"t{n % 2}", queue=f"q{n % 3}")
    assert len(claim(db, want=2, queues=["q0"])) == 2
    assert len(claim(db, want=9, tasks=["t0"])) == 2
    assert len(claim(db, want=9)) == 2
    assert claim(db, want=9) == []


def test_a_claim_of_everything_finds_what_it_takes_back_itself(db: Session) -> None:
    id = enqueue(db)
    claim_one(db, lease="1 second")
    shift_clock(db, "2 seconds")
    assert claim_one(db).id == id


def test_no_more_than_wanted_are_taken(db: Session) -> None:
    enqueue_many(db, [{"task": "t"} for _ in range(50)])
    assert len(claim(db, want=3)) == 3
    assert len(claim(db, want=40)) == 40
    assert len(claim(db, want=40)) == 7
    assert claim(db, want=0) == []
    assert claim(db, want=-1) == []


@pytest.mark.parametrize("lease", [None, "0", "-1 second"])
def test_a_lease_must_be_positive(db: Session, lease: str | None) -> None:
    with refusal(INVALID):
        call(db, "claim", worker_id=uuid4(), lease=lease)


def test_rows_that_others_hold_do_not_make_a_claim_short(db: Session, other: Session) -> None:
    ids = [row["id"] for row in enqueue_many(db, [{"task": "t"} for _ in range(60)])]
    order = [row["id"] for row in query(db, "select id from wakeful.job order by rank, ready_at, id")]
    assert set(order) == set(ids)
    with other.transaction():
        query(other, "select from wakeful.job where id = any(%s) for update", order[:40])
        assert [held.id for held in claim(db, want=10)] == order[40:50]
    assert [held.id for held in claim(db, want=3)] == order[:3]


def test_lanes_have_limits_of_their_own(db: Session) -> None:
    worker = register(db)
    for queue in ("fast", "slow", "slow2"):
        enqueue_many(db, [{"task": "t", "queue": queue} for _ in range(5)])
    taken, _ = worker_claim(db, worker, queues=["fast", "slow", "slow2"], lanes=[1, 2, 2], limits=[2, 3], want=0)
    by_queue = sorted(held.row["queue"] for held in taken)
    assert by_queue.count("fast") == 2
    assert len(by_queue) == 5
    nothing, _ = worker_claim(db, worker, queues=["fast", "slow"], lanes=[1, 2], limits=[0, 0], want=0)
    assert nothing == []


def test_the_horizon_bounds_the_scan_by_the_whole_position(db: Session) -> None:
    worker = register(db)
    enqueue_many(db, [{"task": "t", "priority": n % 3} for n in range(12)])
    order = query(db, "select rank, ready_at, id from wakeful.job order by rank, ready_at, id")
    for place in (0, 3, 4, 7, 10):
        bound = order[place]
        with db.transaction(force_rollback=True):
            taken, _ = worker_claim(
                db,
                worker,
                want=20,
                h_ranks=[bound["rank"]],
                h_ready_ats=[bound["ready_at"]],
                h_ids=[bound["id"]],
            )
        assert [held.id for held in taken] == [row["id"] for row in order[place + 1 :]]


def test_each_queue_has_a_horizon_of_its_own(db: Session) -> None:
    worker = register(db)
    ids = {queue: [enqueue(db, queue=queue) for _ in range(3)] for queue in ("a", "b")}
    bound = job(db, ids["a"][1])
    taken, _ = worker_claim(
        db,
        worker,
        queues=["a", "b"],
        h_ranks=[0, None],
        h_ready_ats=[bound["ready_at"], None],
        h_ids=[bound["id"], None],
    )
    assert {held.id for held in taken} == {ids["a"][2], *ids["b"]}


def test_claimed_rows_tell_the_position_at_which_a_horizon_may_begin(db: Session) -> None:
    worker = register(db)
    enqueue_many(db, [{"task": "t", "priority": n % 2} for n in range(10)])
    taken, _ = worker_claim(db, worker, want=6)
    rank, ready_at, id = position(taken[-1].row)
    rest, _ = worker_claim(db, worker, h_ranks=[rank], h_ready_ats=[ready_at], h_ids=[id])
    assert len(rest) == 4


def test_a_worker_must_be_registered_to_claim_under_its_own_lease(db: Session) -> None:
    enqueue(db)
    with refusal(LAPSED):
        worker_claim(db, uuid4())
    assert stats(db) == {"ready": 1}


def test_a_lapsed_worker_is_refused_and_takes_nothing(db: Session) -> None:
    worker = register(db, lease="10 seconds")
    id = enqueue(db)
    shift_clock(db, "11 seconds")
    with refusal(LAPSED):
        worker_claim(db, worker)
    assert state_of(db, id) == "ready"


def test_a_job_claimed_under_the_workers_lease_has_none_of_its_own(db: Session) -> None:
    worker = register(db, lease="1 hour")
    id = enqueue(db)
    worker_claim(db, worker)
    assert scalar(db, "select lease_expires_at from wakeful.job where id = %s", id) is None
    until = scalar(db, "select lease_expires_at from wakeful.worker where id = %s", worker)
    assert job(db, id)["lease_expires_at"] == until


def test_an_expired_job_is_cancelled_at_the_claim_and_burns_nothing(db: Session) -> None:
    gone = enqueue(db, expires_at="2001-01-01")
    good = enqueue(db)
    # Without tending, so that the claim itself meets the expired one.
    taken, _ = worker_claim(db, register(db), want=1, tend=False)
    assert [held.id for held in taken] == [good]
    over = job(db, gone)
    assert (over["state"], over["cancel_reason"]) == ("cancelled", "expired")
    assert (over["attempt"], over["epoch"], over["attempts"], over["started_at"]) == (0, 0, None, None)


def test_many_expired_jobs_do_not_hide_the_good_one_behind_them(db: Session) -> None:
    enqueue_many(db, [{"task": "t", "expires_at": "2001-01-01"} for _ in range(100)])
    good = enqueue(db)
    taken, _ = worker_claim(db, register(db), want=1, tend=False)
    assert [held.id for held in taken] == [good]
    assert stats(db)["running"] == 1


def test_a_claim_tends_if_it_is_told_to_or_comes_back_short(db: Session) -> None:
    worker = register(db)
    due = enqueue(db, delay="1 second")
    ready = enqueue(db)
    shift_clock(db, "2 seconds")
    assert [held.id for held in worker_claim(db, worker, want=1, tend=False)[0]] == [ready]
    assert state_of(db, due) == "scheduled"
    assert [held.id for held in worker_claim(db, worker, want=1, tend=False)[0]] == [due]


def test_a_brief_claim_takes_what_is_in_line_and_leaves_the_rest_to_the_next(db: Session) -> None:
    worker = register(db)
    worker_claim(db, worker, sleeps="all")
    ready, due = enqueue(db), enqueue(db, delay="1 second")
    shift_clock(db, "2 seconds")
    taken, report = worker_claim(db, worker, sleeps="all", brief=True)
    assert ([held.id for held in taken], state_of(db, due)) == ([ready], "scheduled")
    assert report["due_in"] is None
    assert scalar(db, "select count(*) from wakeful.sleeper") == 1, "it has free slots, and sleeps on"
    enqueue(db)
    assert worker_claim(db, worker, want=1, sleeps="all", brief=True)[0]
    assert scalar(db, "select count(*) from wakeful.sleeper") == 0, "it is busy"


@pytest.mark.parametrize(("kind", "name"), [("queue", "default"), ("task", "t")])
def test_what_is_paused_is_not_taken_and_burns_nothing(db: Session, kind: str, name: str) -> None:
    worker = register(db)
    id = enqueue(db)
    value(db, f"pause_{kind}", name=name)
    assert claim(db) == []
    assert worker_claim(db, worker)[0] == []
    assert (state_of(db, id), job(db, id)["attempt"]) == ("ready", 0)
    value(db, f"resume_{kind}", name=name)
    assert claim_one(db).id == id


def test_a_pause_stops_only_what_it_names(db: Session) -> None:
    enqueue(db, "a", queue="q1")
    free = enqueue(db, "b", queue="q2")
    value(db, "pause_queue", name="q1")
    value(db, "pause_task", name="a")
    assert [held.id for held in claim(db, want=5)] == [free]


def test_a_paused_pair_is_not_promoted_either(db: Session) -> None:
    id = enqueue(db, delay="1 second")
    value(db, "pause_task", name="t")
    shift_clock(db, "2 seconds")
    worker_claim(db, register(db))
    assert state_of(db, id) == "scheduled"
