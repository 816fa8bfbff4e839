"""Orders of events that two sessions could meet in, each forced: who waits, for what, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID, uuid4

import pytest

from tests.races.rounds import Arena
from tests.sessions import (
    DUPLICATE,
    LAPSED,
    STALE,
    Session,
    background,
    call,
    query,
    refusal,
    scalar,
    shift_clock,
    until,
    value,
    wait_until_blocked,
)
from tests.verbs import (
    Held,
    claim,
    claim_one,
    complete,
    complete_all,
    enqueue,
    enqueue_many,
    fail,
    job,
    poked_claim,
    register,
    started,
    state_of,
    states,
    stats,
    worker_claim,
)

Claiming: TypeAlias = Callable[[Session, UUID, UUID], list[Held]]


def plainly(db: Session, worker: UUID, id: UUID) -> list[Held]:
    """The claim of a worker that takes what is in line."""
    return worker_claim(db, worker, tend=False)[0]


@pytest.fixture
def first(arena: Arena) -> Session:
    return arena.contenders[0]


@pytest.fixture
def second(arena: Arena) -> Session:
    return arena.contenders[1]


@pytest.mark.parametrize("mode", ["skip", "raise", "replace", "debounce", "rerun"])
def test_who_loses_to_a_transaction_that_rolls_back_makes_the_job(
    db: Session, first: Session, second: Session, mode: str
) -> None:
    first.execute("begin")
    enqueue(first, "t", {"by": 1}, dedup_key="k")
    with background() as start:
        waiting = start(enqueue, second, "t", {"by": 2}, dedup_key="k", dedup=mode)
        wait_until_blocked(db, second)
        first.execute("rollback")
        made = waiting.result()
    assert states(db) == {made: "ready"}
    assert job(db, made)["payload"] == {"by": 2}


@pytest.mark.parametrize(("mode", "payload"), [("skip", 1), ("replace", 2), ("debounce", 1), ("rerun", 2)])
def test_who_loses_to_a_transaction_that_commits_joins_its_job(
    db: Session, first: Session, second: Session, mode: str, payload: int
) -> None:
    first.execute("begin")
    made = enqueue(first, "t", {"by": 1}, dedup_key="k")
    with background() as start:
        waiting = start(enqueue, second, "t", {"by": 2}, dedup_key="k", dedup=mode)
        wait_until_blocked(db, second)
        first.execute("commit")
        assert waiting.result() == made
    assert states(db) == {made: "ready"}
    assert job(db, made)["payload"] == {"by": payload}


def test_who_asked_to_be_told_and_loses_to_one_that_commits_is_told(
    db: Session, first: Session, second: Session
) -> None:
    first.execute("begin")
    made = enqueue(first, dedup_key="k")
    with background() as start:
        waiting = start(enqueue, second, dedup_key="k", dedup="raise")
        wait_until_blocked(db, second)
        first.execute("commit")
        with refusal(DUPLICATE):
            waiting.result()
    assert states(db) == {made: "ready"}


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_a_resent_id_waits_for_the_end_of_its_job_and_makes_no_second_one(
    db: Session, first: Session, second: Session, end: str
) -> None:
    id = uuid4()
    enqueue(db, id=id)
    held = None if end == "cancel" else claim_one(db)
    first.execute("begin")
    if held is None:
        value(first, "cancel", id=id)
    elif end == "complete":
        complete(first, held)
    else:
        fail(first, held, no_retry=True)
    with background() as start:
        resent = start(enqueue, second, id=id)
        wait_until_blocked(db, second)
        first.execute("commit")
        assert resent.result() == id
    assert states(db) == {id: {"complete": "completed", "fail": "dead", "cancel": "cancelled"}[end]}


def test_a_resent_id_waits_for_a_completion_that_rolls_back_and_changes_nothing(
    db: Session, first: Session, second: Session
) -> None:
    held = started(db)
    first.execute("begin")
    complete(first, held)
    with background() as start:
        resent = start(enqueue, second, id=held.id)
        wait_until_blocked(db, second)
        first.execute("rollback")
        assert resent.result() == held.id
    assert states(db) == {held.id: "running"}
    complete(db, held)


def test_a_resent_id_whose_job_ends_between_the_looks_makes_no_second_one(
    db: Session, first: Session, second: Session
) -> None:
    """The live row was still in the way of the insert, and is gone when its twin is looked for."""
    held = started(db)
    db.execute("alter function wakeful.ids_already_over rename to look_into_history")
    db.execute(
        """create function wakeful.ids_already_over(jobs wakeful.asked_job[], at timestamptz)
        returns uuid[] language plpgsql as $$
        declare found uuid[] := wakeful.look_into_history(jobs, at);
        begin perform pg_advisory_lock(1); perform pg_advisory_unlock(1); return found; end $$"""
    )
    first.execute("select pg_advisory_lock(1)")
    with background() as start:
        resent = start(enqueue, second, id=held.id)
        wait_until_blocked(db, second)
        complete(db, held)
        first.execute("select pg_advisory_unlock(1)")
        assert resent.result() == held.id
    assert states(db) == {held.id: "completed"}


def test_a_rerun_that_waits_for_a_completion_becomes_the_next_job(db: Session, first: Session, second: Session) -> None:
    held = started(db, dedup_key="k")
    first.execute("begin")
    complete(first, held)
    with background() as start:
        asked = start(enqueue, second, "t", {"n": 2}, dedup_key="k", dedup="rerun")
        wait_until_blocked(db, second)
        first.execute("commit")
        made = asked.result()
    assert states(db) == {held.id: "completed", made: "ready"}


def test_a_completion_that_waits_for_a_rerun_starts_it(db: Session, first: Session, second: Session) -> None:
    held = started(db, dedup_key="k")
    first.execute("begin")
    following = enqueue(first, "t", {"n": 2}, dedup_key="k", dedup="rerun")
    with background() as start:
        completing = start(complete, second, held)
        wait_until_blocked(db, second)
        first.execute("commit")
        completing.result()
    assert states(db) == {held.id: "completed", following: "ready"}
    assert job(db, following)["payload"] == {"n": 2}


def test_a_rerun_that_is_rolled_back_is_not_started(db: Session, first: Session, second: Session) -> None:
    held = started(db, dedup_key="k")
    first.execute("begin")
    enqueue(first, dedup_key="k", dedup="rerun")
    with background() as start:
        completing = start(complete, second, held)
        wait_until_blocked(db, second)
        first.execute("rollback")
        completing.result()
    assert states(db) == {held.id: "completed"}


@pytest.mark.parametrize("claimed", [plainly, poked_claim])
def test_a_claim_in_flight_holds_its_worker_and_the_rescue_passes_it_over(
    db: Session, first: Session, claimed: Claiming
) -> None:
    worker = register(db, lease="10 seconds")
    id = enqueue(db)
    first.execute("begin")
    assert len(claimed(first, worker, id)) == 1
    shift_clock(db, "11 seconds")
    assert value(db, "rescue") == 0
    assert len(query(db, "select from wakeful.worker")) == 1
    first.execute("commit")
    assert state_of(db, id) == "running"
    assert value(db, "rescue") == 1
    assert state_of(db, id) == "ready"


@pytest.mark.parametrize("claimed", [plainly, poked_claim])
def test_a_claim_that_meets_its_rescue_waits_and_is_refused(
    db: Session, first: Session, second: Session, claimed: Claiming
) -> None:
    worker = register(db, lease="10 seconds")
    id = enqueue(db)
    shift_clock(db, "0 seconds")
    first.execute("begin")
    scalar(first, "select id from wakeful.worker where id = %s for update", worker)
    with background() as start:
        claiming = start(claimed, second, worker, id)
        wait_until_blocked(db, second)
        value(first, "leave_1", worker_id=worker)
        first.execute("commit")
        with refusal(LAPSED):
            claiming.result()
    assert stats(db) == {"ready": 1}


@pytest.mark.parametrize("claimed", [plainly, poked_claim])
def test_a_claim_that_waited_past_the_end_of_its_lease_is_refused(
    db: Session, first: Session, second: Session, claimed: Claiming
) -> None:
    """A rescue that could not take everything back leaves the worker's row as it was."""
    worker = register(db, lease="300 milliseconds")
    id = enqueue(db)
    first.execute("begin")
    scalar(first, "select id from wakeful.worker where id = %s for update", worker)
    with background() as start:
        claiming = start(claimed, second, worker, id)
        wait_until_blocked(db, second)
        until(lambda: not query(db, "select from wakeful.worker where lease_expires_at > wakeful.now()"))
        first.execute("commit")
        with refusal(LAPSED):
            claiming.result()
    assert stats(db) == {"ready": 1}


@pytest.mark.parametrize("claimed", [plainly, poked_claim])
def test_a_claim_does_not_wait_for_a_job_that_someone_holds(
    db: Session, first: Session, second: Session, claimed: Claiming
) -> None:
    worker, id = register(db), enqueue(db)
    first.execute("begin")
    first.execute("select from wakeful.job for update")
    second.execute("set lock_timeout = '5s'")
    assert claimed(second, worker, id) == []
    first.execute("commit")
    assert len(claimed(second, worker, id)) == 1


def test_a_beat_and_a_claim_of_one_worker_do_not_wait_for_each_other(
    db: Session, first: Session, second: Session
) -> None:
    worker = register(db)
    enqueue(db)
    first.execute("begin")
    worker_claim(first, worker)
    assert value(second, "beat_1", worker_id=worker, lease="1 hour") is True
    first.execute("commit")
    first.execute("begin")
    assert value(first, "beat_1", worker_id=worker, lease="1 hour") is True
    second.execute("set lock_timeout = '5s'")
    assert worker_claim(second, worker)[0] == []
    first.execute("commit")


def test_a_completion_waits_for_a_rescue_and_is_refused(db: Session, first: Session, second: Session) -> None:
    held = started(db, lease="1 second")
    shift_clock(db, "2 seconds")
    first.execute("begin")
    assert value(first, "rescue") == 1
    with background() as start:
        completing = start(complete, second, held)
        wait_until_blocked(db, second)
        first.execute("commit")
        with refusal(STALE):
            completing.result()
    assert states(db) == {held.id: "ready"}


def test_a_completion_waits_for_a_rescue_that_rolls_back_and_is_taken(
    db: Session, first: Session, second: Session
) -> None:
    held = started(db, lease="1 second")
    shift_clock(db, "2 seconds")
    first.execute("begin")
    assert value(first, "rescue") == 1
    with background() as start:
        completing = start(complete, second, held)
        wait_until_blocked(db, second)
        first.execute("rollback")
        completing.result()
    assert states(db) == {held.id: "completed"}


def test_one_row_that_a_handlers_transaction_holds_starves_no_other_lease(db: Session, first: Session) -> None:
    worker = uuid4()
    held = [started(db, worker=worker, lease="10 seconds") for _ in range(5)]
    first.execute("begin")
    complete(first, held[2])
    told = query(
        db,
        "select * from wakeful.extend_1(%s, %s, %s::bigint[], array_fill(interval '1 hour', array[5]))",
        *(worker, [one.id for one in held], [one.epoch for one in held]),
    )
    assert told == [{"id": held[2].id, "refused": "locked"}]
    shift_clock(db, "11 seconds")
    assert value(db, "rescue") == 0
    assert claim(db, want=10) == []
    first.execute("commit")
    assert stats(db) == {"running": 4, "completed": 1}


def test_an_uncommitted_enqueue_is_in_nobodys_way(db: Session, first: Session) -> None:
    first.execute("begin")
    hidden = enqueue(first)
    seen = enqueue(db)
    assert [held.id for held in claim(db, want=5)] == [seen]
    assert value(db, "cancel", id=hidden) == "unknown"
    first.execute("commit")
    assert claim_one(db).id == hidden


def test_reruns_by_key_against_settlements_by_id_lock_in_one_order(
    db: Session, first: Session, second: Session
) -> None:
    """By key the reruns would take the greater id and then want the lesser, which the settlement has by then."""
    worker = uuid4()
    low, high = sorted((uuid4(), uuid4()))
    keys = {low: "z", high: "a"}
    enqueue_many(db, [{"task": "t", "id": str(id), "dedup_key": key} for id, key in keys.items()])
    held = claim(db, worker, want=2)
    asks = [{"task": "t", "dedup_key": key, "dedup": "rerun"} for key in ("a", "z")]
    # The watching session keeps both from the greater id until both have begun.
    db.execute("begin")
    query(db, "select from wakeful.job where id = %s for update", high)
    with background() as start:
        rerunning = start(enqueue_many, first, asks)
        wait_until_blocked(db, first)
        settling = start(complete_all, second, worker, held)
        wait_until_blocked(db, second)
        db.execute("commit")
        assert settling.result() == []
        assert [row["action"] for row in rerunning.result()] == ["rerun", "rerun"]
    assert sorted(states(db).values()) == ["completed", "completed", "ready", "ready"]


def test_statistics_are_exact_in_the_middle_of_settlements(db: Session, first: Session) -> None:
    """What is under way is counted where it was, and moves in one step."""
    worker = uuid4()
    for _ in range(6):
        started(db, worker=worker)
    first.execute("begin")
    for row in query(db, "select id, epoch from wakeful.job limit 3"):
        call(first, "complete", id=row["id"], epoch=row["epoch"], worker_id=worker)
    assert stats(db) == {"running": 6}
    assert stats(first) == {"running": 3, "completed": 3}
    first.execute("commit")
    assert stats(db) == {"running": 3, "completed": 3}


def test_a_completion_that_waits_for_a_change_of_its_row_takes_the_row_as_changed(
    db: Session, first: Session, second: Session
) -> None:
    worker = register(db)
    enqueue_many(db, [{"task": "t"} for _ in range(3)])
    held = worker_claim(db, worker)[0]
    first.execute("begin")
    call(first, "note_1", worker_id=worker, id=held[1].id, epoch=held[1].epoch, progress='{"percent": 50}')
    with background() as start:
        completing = start(complete_all, second, worker, held)
        wait_until_blocked(db, second)
        first.execute("commit")
        assert completing.result() == []
    assert set(states(db).values()) == {"completed"}
    assert query(db, "select progress from wakeful.finished_job where id = %s", held[1].id) == [
        {"progress": {"percent": 50}}
    ]
