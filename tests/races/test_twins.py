"""Races of dedup: one live row for a key, the newest payload wins, nothing is lost to a rollback."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.effort import times
from tests.races.rounds import Arena, Refused, by
from tests.sessions import DUPLICATE, Session, query, wait_until_blocked
from tests.verbs import Held, claim, claim_one, complete, complete_all, enqueue, enqueue_many, job, states, stats
from wakeful.testing import Database


def live(db: Session, key: str = "k") -> list[dict[str, Any]]:
    return query(db, "select id, state, payload from wakeful.jobs where dedup_key = %s and finished_at is null", key)


def in_transaction(conn: Session, commit: bool, **options: object) -> UUID | None:
    """Enqueue in a transaction that lives a moment longer, and then commits or does not."""
    with conn.transaction(force_rollback=not commit):
        made = enqueue(conn, "t", {"by": "first"}, dedup_key="k", **options)
        conn.execute("select pg_sleep(0.001)")
    return made if commit else None


@pytest.mark.parametrize("mode", ["skip", "raise", "replace", "debounce", "rerun"])
def test_a_twin_against_one_that_may_roll_back(db: Session, arena: Arena, mode: str) -> None:
    for n in range(times(80)):
        commit = n % 3 == 0
        first, second = arena.race(
            by(in_transaction, commit=commit),
            by(enqueue, "t", {"by": "second"}, dedup_key="k", dedup=mode),
        )
        [row] = live(db)
        if not isinstance(second, Refused):
            assert row["id"] == second
        else:
            assert (second, row["id"]) == (Refused(DUPLICATE), first)
        if not commit:
            assert row["payload"] == {"by": "second"}
        complete(db, claim_one(db))
    assert stats(db) == {"completed": times(80)}


def test_replace_against_claim(db: Session, arena: Arena) -> None:
    seen = Counter[str]()
    for n in range(times(300)):
        id = enqueue(db, "t", {"n": -1}, dedup_key="k")
        answer, taken = arena.race(
            by(enqueue_many, [{"task": "t", "payload": {"n": n}, "dedup_key": "k", "dedup": "replace"}]),
            claim,
        )
        [told] = answer
        assert told["id"] == id
        held: Held = taken[0] if taken else claim_one(db)
        assert held.row["payload"] == ({"n": n} if told["action"] == "replaced" else {"n": -1})
        seen[told["action"]] += 1
        complete(db, held)
    assert set(seen) <= {"replaced", "skipped"}
    assert stats(db) == {"completed": times(300)}


@pytest.mark.parametrize("mode", ["rerun", "debounce"])
def test_rerun_against_complete(db: Session, arena: Arena, mode: str) -> None:
    seen = Counter[str]()
    for n in range(times(300)):
        enqueue(db, "t", {"n": -1}, dedup_key="k")
        held = claim_one(db)
        answer, completed = arena.race(
            by(enqueue_many, [{"task": "t", "payload": {"n": n}, "dedup_key": "k", "dedup": mode}]),
            by(complete, held),
        )
        assert completed is None
        [row], [told] = live(db), answer
        assert (row["id"], row["payload"], row["state"]) == (told["id"], {"n": n}, "ready")
        seen[told["action"]] += 1
        complete(db, claim_one(db))
    assert set(seen) == {"rerun", "inserted"}, seen
    assert stats(db) == {"completed": 2 * times(300)}


def test_two_reruns_against_complete(db: Session, arena: Arena) -> None:
    for n in range(times(200)):
        enqueue(db, dedup_key="k")
        held = claim_one(db)
        asks = [by(enqueue, payload={"n": (n, side)}, dedup_key="k", dedup="rerun") for side in (0, 1)]
        first, second, _ = arena.race(*asks, by(complete, held))
        [row] = live(db)
        assert first == second == row["id"]
        assert row["payload"] in ({"n": [n, 0]}, {"n": [n, 1]})
        complete(db, claim_one(db))
    assert stats(db) == {"completed": 2 * times(200)}


def test_a_resent_id_against_its_completion(db: Session, arena: Arena) -> None:
    for _ in range(times(300)):
        id = uuid4()
        enqueue(db, id=id)
        held = claim_one(db)
        resent, _ = arena.race(by(enqueue, id=id), by(complete, held))
        assert resent == id
        assert job(db, id)["state"] == "completed"
    assert stats(db) == {"completed": times(300)}


def test_a_resent_id_against_itself(db: Session, arena: Arena) -> None:
    for _ in range(times(150)):
        id = uuid4()
        assert arena.race(*[by(enqueue, id=id)] * 3) == [id] * 3
    assert stats(db) == {"ready": times(150)}


def test_sets_of_twins_in_any_order_never_deadlock(db: Session, arena: Arena) -> None:
    keys = [f"k{n}" for n in range(12)]
    for _ in range(times(120)):
        sides = []
        for mode in ("rerun", "replace", "skip"):
            arena.dice.shuffle(keys)
            jobs = [{"task": "t", "dedup_key": key, "dedup": mode} for key in keys[:8]]
            sides.append(by(enqueue_many, jobs=jobs))
        arena.race(*sides)
        assert all(len(live(db, key)) <= 1 for key in keys)
        for held in claim(db, want=20):
            complete(db, held)


def test_sets_of_reruns_against_sets_of_settlements_never_deadlock(db: Session, arena: Arena) -> None:
    """Settlements lock by id, twins are met by key: the two orders must not cross."""
    worker = uuid4()
    for n in range(times(120)):
        keys = [f"k{place}" for place in range(10)]
        arena.dice.shuffle(keys)
        enqueue_many(db, [{"task": "t", "dedup_key": key} for key in keys])
        held = claim(db, worker, want=20)
        assert len(held) == 10
        asks = [{"task": "t", "dedup_key": key, "dedup": "rerun", "payload": {"n": n}} for key in keys]
        _, refused = arena.race(
            by(enqueue_many, jobs=asks),
            by(complete_all, worker, held),
        )
        assert refused == []
        following = claim(db, worker, want=20)
        assert [one.row["payload"] for one in following] == [{"n": n}] * 10
        for one in following:
            complete(db, one)
    assert set(states(db).values()) == {"completed"}


def test_a_key_in_a_transaction_that_is_cut_off_is_free_again(db: Session, arena: Arena, database: Database) -> None:
    for _ in range(times(5)):
        cut = psycopg.connect(database.dsn)
        cut.execute("select wakeful.enqueue('t', '{}', dedup_key => 'k')")
        waiting = arena.pool.submit(enqueue, arena.contenders[0], "t", {"by": "second"}, dedup_key="k")
        wait_until_blocked(db, arena.contenders[0])
        db.execute("select pg_terminate_backend(%s)", [cut.info.backend_pid])
        made = waiting.result()
        cut.close()
        [row] = live(db)
        assert (row["id"], row["payload"]) == (made, {"by": "second"})
        complete(db, claim_one(db))
