"""Races of a person's acts: an outcome is never overwritten, an act is never done twice."""

from __future__ import annotations

from collections import Counter

from tests.effort import times
from tests.races.rounds import Arena, by
from tests.sessions import Session, query, value
from tests.verbs import claim, claim_one, complete, enqueue, fail, state_of, states, stats


def test_cancel_against_complete(db: Session, arena: Arena) -> None:
    seen = Counter[str]()
    for _ in range(times(400)):
        enqueue(db)
        held = claim_one(db)
        answer, completed = arena.race(
            by(value, "cancel", id=held.id),
            by(complete, held),
        )
        assert completed is None, "a completion is never refused because of a cancellation"
        assert state_of(db, held.id) == "completed"
        seen[answer] += 1
    assert set(seen) <= {"requested", "busy", "over"}
    assert stats(db) == {"completed": times(400)}


def test_cancel_against_failure(db: Session, arena: Arena) -> None:
    for _ in range(times(300)):
        enqueue(db)
        held = claim_one(db)
        answer, _ = arena.race(
            by(value, "cancel", id=held.id),
            by(fail, held, retry_in="0"),
        )
        ended = state_of(db, held.id)
        assert ended == ("ready" if answer == "busy" else "cancelled")
        if ended == "ready":
            complete(db, claim_one(db))
    assert sum(stats(db).values()) == times(300)


def test_cancel_against_claim(db: Session, arena: Arena) -> None:
    seen = Counter[str]()
    for _ in range(times(400)):
        id = enqueue(db)
        answer, taken = arena.race(by(value, "cancel", id=id), claim)
        seen[answer] += 1
        if answer == "cancelled":
            assert (taken, state_of(db, id)) == ([], "cancelled")
        elif taken:
            assert answer in ("requested", "busy")
            complete(db, taken[0])
        else:
            # Each skipped the row while the other had it.
            assert answer == "busy"
            complete(db, claim_one(db))
    assert sum(stats(db).values()) == times(400)
    assert "cancelled" in seen


def test_promote_against_cancel(db: Session, arena: Arena) -> None:
    seen = Counter[str]()
    for _ in range(times(400)):
        id = enqueue(db, delay="1 microsecond")
        db.execute("update wakeful.job set state = 0, ready_at = null where id = %s", [id])
        promoted, answer = arena.race(
            by(value, "promote", queues=["default"], tasks=["t"]),
            by(value, "cancel", id=id),
        )
        seen[f"{promoted} {answer}"] += 1
        if answer == "busy":
            assert (promoted, state_of(db, id)) == (1, "ready")
            value(db, "cancel", id=id)
        assert state_of(db, id) == "cancelled"
    assert stats(db) == {"cancelled": times(400)}
    assert len(seen) > 1, seen


def test_requeue_against_requeue(db: Session, arena: Arena) -> None:
    for _ in range(times(200)):
        enqueue(db)
        held = claim_one(db)
        fail(db, held, no_retry=True)
        answers = arena.race(*[by(value, "requeue", id=held.id)] * 3)
        [new] = set(answers)
        assert state_of(db, new) == "ready"
        complete(db, claim_one(db))
    assert stats(db) == {"dead": times(200), "completed": times(200)}
    links = query(db, "select count(distinct requeued_as) as links from wakeful.dead_letters")
    assert links == [{"links": times(200)}]


def test_retry_now_against_promote_and_bury(db: Session, arena: Arena) -> None:
    seen = Counter[str]()
    for _ in range(times(200)):
        id = enqueue(db, delay="1 hour")
        arena.race(
            by(value, "retry_now", id=id),
            by(value, "bury", id=id, reason="why"),
            claim,
        )
        ended = state_of(db, id)
        seen[str(ended)] += 1
        assert ended in ("dead", "running", "ready")
        db.execute("delete from wakeful.job")
    assert set(states(db).values()) <= {"dead"}
    assert seen["dead"] > 0
