"""Races for a job: nobody gets what another holds, and nothing is lost on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.effort import times
from tests.races.rounds import Arena, Refused, by
from tests.sessions import (
    LAPSED,
    STALE,
    Session,
    background,
    call,
    query,
    refusal,
    scalar,
    sessions,
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
    state_of,
    stats,
    worker_claim,
)
from wakeful.testing import Database


def drain(conn: Session, batch: int) -> list[Held]:
    """Claim and complete until nothing is left."""
    mine: list[Held] = []
    worker = register(conn)
    misses = 0
    while misses < 3:
        taken, _ = worker_claim(conn, worker, want=batch)
        misses = 0 if taken else misses + 1
        mine += taken
        refused = complete_all(conn, worker, taken)
        assert refused == []
    return mine


def test_claim_against_claim(db: Session, arena: Arena) -> None:
    for batch in (1, 7, 40):
        jobs = times(batch * 30)
        made = enqueue_many(db, [{"task": "t", "priority": n % 3} for n in range(jobs)])
        shares = arena.race(*[by(drain, batch=batch)] * 3)
        taken = Counter(held.id for share in shares for held in share)
        assert taken == Counter(row["id"] for row in made)
        assert {held.epoch for share in shares for held in share} == {1}
    assert stats(db) == {"completed": scalar(db, "select count(*) from wakeful.finished_job")}


def test_claim_against_claim_for_one_job(db: Session, arena: Arena) -> None:
    for _ in range(times(150)):
        id = enqueue(db)
        answers = arena.race(claim, claim, claim)
        [held] = [held for answer in answers for held in answer]
        assert (held.id, held.epoch) == (id, 1)
        complete(db, held)


def lapsing(db: Session) -> Held:
    """A claimed job whose lease has lapsed already."""
    id = enqueue(db)
    held = claim_one(db, lease="1 microsecond")
    assert held.id == id
    return held


def test_complete_against_rescue(db: Session, arena: Arena) -> None:
    seen = Counter[str]()
    for _ in range(times(400)):
        held = lapsing(db)
        completed, rescued = arena.race(by(complete, held), by(value, "rescue"))
        if completed is None:
            assert rescued == 0
            assert state_of(db, held.id) == "completed"
            seen["completed"] += 1
        else:
            assert (completed, rescued) == (Refused(STALE), 1)
            complete(db, claim_one(db))
            seen["rescued"] += 1
    assert stats(db) == {"completed": seen.total()}
    assert len(seen) == 2, seen


def test_extend_against_rescue(db: Session, arena: Arena) -> None:
    seen = Counter[str]()
    for _ in range(times(400)):
        held = lapsing(db)
        extended, rescued = arena.race(
            by(value, "extend", **held.fence, lease="1 hour"),
            by(value, "rescue"),
        )
        if extended is True:
            assert (rescued, state_of(db, held.id)) == (0, "running")
            complete(db, held)
        else:
            # It was told that the row is busy, or that it holds nothing any more.
            assert extended in (False, Refused(STALE))
            assert rescued == 1
            complete(db, claim_one(db))
        seen[str(extended)] += 1
    assert stats(db) == {"completed": seen.total()}
    assert "True" in seen
    assert len(seen) > 1, seen


def test_two_settlements_of_one_claim(db: Session, arena: Arena) -> None:
    verbs: dict[str, Callable[[Session, Held], object]] = {
        "completed": complete,
        "dead": lambda conn, held: fail(conn, held, no_retry=True),
        "ready": lambda conn, held: call(conn, "release", **held.fence),
    }
    for _ in range(times(250)):
        enqueue(db)
        held = claim_one(db)
        answers = arena.race(*(by(verb, held) for verb in verbs.values()))
        accepted = [state for state, answer in zip(verbs, answers, strict=True) if not isinstance(answer, Refused)]
        assert answers.count(Refused(STALE)) == 2
        assert accepted == [state_of(db, held.id)]
        if accepted == ["ready"]:
            complete(db, claim_one(db))
    assert sum(stats(db).values()) == times(250)


def test_a_claim_under_the_workers_lease_against_its_rescue(db: Session, arena: Arena) -> None:
    """Whatever wins, no job is left running whose worker is on no list."""
    seen = Counter[str]()
    for number in range(times(300)):
        worker = register(db, lease="2 milliseconds")
        id = enqueue(db)
        claiming = by(poked_claim, worker, id) if number % 2 else by(worker_claim, worker=worker, tend=False)
        claimed, _ = arena.race(claiming, by(value, "rescue"))
        orphans = query(
            db,
            "select from wakeful.job j where j.state = 2"
            " and not exists (select from wakeful.worker w where w.id = j.worker_id)",
        )
        assert orphans == []
        seen[str(claimed) if isinstance(claimed, Refused) else "taken"] += 1
        db.execute("delete from wakeful.job where id = %s", [id])
        db.execute("delete from wakeful.worker")
    assert set(seen) <= {"taken", str(Refused(LAPSED))}


def test_who_is_poked_for_the_same_job_gets_it_once(db: Session, arena: Arena) -> None:
    workers = [register(db) for _ in range(3)]
    first = 0
    for _ in range(times(300)):
        id = enqueue(db)
        taken = arena.race(*(by(poked_claim, worker, id) for worker in workers))
        assert [held.id for mine in taken for held in mine] == [id]
        first += bool(taken[0])
        assert job(db, id)["attempt"] == 1
    assert 0 < first < times(300), "nobody wins every time, or it was no race"


def test_workers_that_find_each_other_lapsed_do_not_wait_for_each_other(db: Session, arena: Arena) -> None:
    """As when the clock has jumped: each would lock the other's row, and then want its own."""
    for _ in range(times(100)):
        workers = [register(db, lease="1 millisecond") for _ in range(3)]
        enqueue_many(db, [{"task": "t"}] * 3)
        # Only now, so that all have lapsed for each of them.
        db.execute("select pg_sleep(0.002)")
        answers = arena.race(*(by(worker_claim, worker=worker, want=1) for worker in workers))
        assert answers == [Refused(LAPSED)] * 3
        db.execute("delete from wakeful.job")
        db.execute("delete from wakeful.worker")


def test_leave_against_claim(db: Session, arena: Arena) -> None:
    seen = Counter[str]()
    for _ in range(times(300)):
        worker, id = register(db), enqueue(db)
        left, claimed = arena.race(
            by(value, "leave_1", worker_id=worker),
            by(worker_claim, worker=worker),
        )
        assert state_of(db, id) == "ready"
        assert query(db, "select from wakeful.worker") == []
        assert left == (0 if claimed == Refused(LAPSED) else 1)
        seen["refused" if claimed == Refused(LAPSED) else "released"] += 1
        complete(db, claim_one(db))
    assert len(seen) == 2, seen


def test_settling_against_leaving(db: Session, arena: Arena) -> None:
    for _ in range(times(150)):
        worker = register(db)
        ids = {row["id"] for row in enqueue_many(db, [{"task": "t"} for _ in range(6)])}
        held, _ = worker_claim(db, worker)

        refused, left = arena.race(by(complete_all, worker, held), by(value, "leave_1", worker_id=worker))
        ready = {row["id"] for row in query(db, "select id from wakeful.job where state = 1")}
        assert {row["id"] for row in refused} == ready
        assert len(ready) == left
        assert ready <= ids
        for one in claim(db, uuid4(), want=10):
            complete(db, one)
    assert stats(db) == {"completed": 6 * times(150)}


@pytest.mark.parametrize("limited", [False, True])
def test_what_comes_into_line_while_a_claim_looks_does_not_start_before_it_came(
    database: Database, limited: bool
) -> None:
    """The claim's session is slow to tell the time, so that whole jobs come between its clock and its look."""
    with sessions(database.dsn, 2) as (claimer, producer), background() as start:
        if limited:
            call(producer, "set_task_policy", task="t", concurrency=5000)
        producer.execute(SLOW_CLOCK)
        producer.execute("set test.slow = 'no'")
        claimer.execute("set test.slow = 'yes'")
        enqueue(producer)
        looking = start(claim, claimer, want=5000)
        while not looking.done():
            enqueue(producer)
        assert len(looking.result()) > 1
        assert query(producer, "select run_at - started_at from wakeful.job where started_at < run_at") == []


SLOW_CLOCK = """
create or replace function wakeful.now() returns timestamptz language plpgsql volatile as $$
declare
    at constant timestamptz := clock_timestamp();
begin
    if current_setting('test.slow') = 'yes' then
        perform pg_sleep(0.05);
    end if;
    return at;
end
$$
"""


def test_a_worker_that_leaves_does_not_wait_for_its_own_turn(database: Database) -> None:
    with sessions(database.dsn, 4) as (db, leaving, turning, holder), background() as start:
        worker = register(db)
        for _ in range(2):
            enqueue(db)
        [held], _ = worker_claim(db, worker, want=1)
        holder.execute("begin")
        holder.execute("select from wakeful.worker for update")
        left = start(value, leaving, "leave_1", worker_id=worker)
        wait_until_blocked(db, leaving)
        done = {"done_ids": [held.id], "done_epochs": [held.epoch]}
        turn = start(worker_claim, turning, worker, want=1, **done)
        wait_until_blocked(db, turning)
        holder.execute("commit")
        assert left.result() == 1
        # It is off the list: the turn is refused as a whole.
        with refusal(LAPSED):
            turn.result()
