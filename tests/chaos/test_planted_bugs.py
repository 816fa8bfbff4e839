"""Bugs that queues are known for are planted in a copy of the schema, or in a worker: the checkers catch each one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from psycopg import Rollback

from tests.chaos.evidence import WITNESS, gather
from tests.chaos.history import History
from tests.chaos.invariants import broken
from tests.chaos.load import Wanted, enqueue, enqueue_all
from tests.sessions import STALE, Session, session, sessions, shift_clock, sqlstate_of, take_out, value
from tests.verbs import Held, claim_one, complete, register, worker_claim
from tests.worker.apps import append
from wakeful.testing import Database
from wakeful.values.identity import new_id


@pytest.fixture
def witnessed(database: Database) -> Iterator[Database]:
    with session(database.dsn) as db:
        db.execute(WITNESS.encode())
        yield database


@pytest.fixture
def db(witnessed: Database) -> Iterator[Session]:
    with session(witnessed.dsn) as conn:
        yield conn


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def ask(db: Session, history: History, task: str = "quick") -> UUID:
    """One job, acknowledged."""
    [made] = enqueue_all(db, history, [Wanted(new_id(), task, {})])
    return made


def tell(history: History, event: str, held: Held) -> None:
    """What a worker would write."""
    line = {"event": event, "job": str(held.id), "epoch": held.epoch, "attempt": 1, "pid": held.epoch, "at": 1.0}
    append(history.workers, line)


def settle(db: Session, held: Held) -> None:
    """Complete it, or be told that it is another's."""
    assert sqlstate_of(lambda: complete(db, held, {"epoch": held.epoch})) in (None, STALE)


def stall_then_complete(db: Session, history: History) -> dict[int, list[str]]:
    """A worker stalls, another takes its job, and the first one settles after all; then the second one tries."""
    ask(db, history)
    stale = claim_one(db, lease="1 minute")
    tell(history, "start", stale)
    shift_clock(db, "2 minutes")
    assert value(db, "rescue") == 1
    held = claim_one(db, lease="1 minute")
    tell(history, "start", held)
    for one in (stale, held):
        tell(history, "end", one)
        settle(db, one)
    return broken(gather(db, history))


def test_the_fence_keeps_a_stale_settlement_out(db: Session, history: History) -> None:
    assert stall_then_complete(db, history) == {}


def test_a_settlement_without_the_epoch_check_is_caught(db: Session, history: History) -> None:
    fence = r"j\.epoch = s\.epoch and j\.worker_id = complete_1\.worker_id and "
    take_out(db, "complete_1", fence)
    take_out(db, "complete_1", r"when epochs\[array_position\(ids, g\.id\)\] = g\.epoch", "when true")
    assert 3 in stall_then_complete(db, history)


def rescue_beside_a_living_worker(db: Session, history: History) -> dict[int, list[str]]:
    """Another worker comes, and tends the line while the first is at its job."""
    id = ask(db, history)
    [held], _ = worker_claim(db, register(db, tasks=["quick"]), tasks=["quick"])
    tell(history, "start", held)
    again, _ = worker_claim(db, register(db, tasks=["quick"]), tasks=["quick"])
    for one in [held, *again]:
        settle(db, one)
    assert id == held.id
    return broken(gather(db, history, ownership_losses=False))


def test_a_rescue_leaves_a_living_workers_jobs_alone(db: Session, history: History) -> None:
    assert rescue_beside_a_living_worker(db, history) == {}


def test_a_rescue_without_its_guard_is_caught(db: Session, history: History) -> None:
    take_out(db, "rescue", r"w\.lease_expires_at <= at and ")
    assert {5, 8} <= rescue_beside_a_living_worker(db, history).keys()


def roll_back() -> None:
    """End the transaction as a failed commit would."""
    raise Rollback


def fail_to_commit(db: Session, history: History, *, settle_apart: bool) -> dict[int, list[str]]:
    """A handler's transaction, which fails at its end; the settlement is part of it, or goes before."""
    ask(db, history, "effect")
    held = claim_one(db)
    if settle_apart:
        complete(db, held)
    with db.transaction():
        db.execute("insert into public.effect values (%s, %s)", [held.id, held.epoch])
        if not settle_apart:
            complete(db, held)
        roll_back()
    shift_clock(db, "1 hour")
    if value(db, "rescue"):
        held = claim_one(db)
        with db.transaction():
            db.execute("insert into public.effect values (%s, %s)", [held.id, held.epoch])
            complete(db, held)
    return broken(gather(db, history))


def test_an_effect_goes_with_the_settlement(db: Session, history: History) -> None:
    assert fail_to_commit(db, history, settle_apart=False) == {}


def test_a_settlement_before_the_commit_is_caught(db: Session, history: History) -> None:
    assert 6 in fail_to_commit(db, history, settle_apart=True)


LOOK_THEN_INSERT = """
drop index wakeful.job_dedup;
create function public.look(wanted text) returns boolean language sql as
    $$ select exists (select from wakeful.job j where j.dedup_key = wanted) $$;
"""


def test_a_key_that_is_looked_up_before_the_insert_is_caught(
    witnessed: Database, db: Session, history: History
) -> None:
    db.execute(LOOK_THEN_INSERT.encode())
    wanted = [Wanted(new_id(), "keyed", {}, "k") for _ in range(2)]
    with sessions(witnessed.dsn, 2) as pair:
        for conn in pair:
            conn.execute("begin")
            # Both look before either has committed: nobody is there yet.
            assert conn.execute("select public.look('k') as found").fetchone() == {"found": False}
        for conn, one in zip(pair, wanted, strict=True):
            history.ask((one.id, one.task))
            made = conn.execute(
                "insert into wakeful.job (id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at,"
                " created_at, updated_at, correlation_id, dedup_key, payload) values (%s, 'default', 'keyed', 1, 0, 5,"
                " false, now(), now(), now(), now(), %s, 'k', '{}') returning id",
                [one.id, one.id],
            ).fetchone()
            assert made is not None
            conn.execute("commit")
    assert 11 in broken(gather(db, history))


def test_the_unique_key_lets_one_of_two_through(witnessed: Database, db: Session, history: History) -> None:
    wanted = [Wanted(new_id(), "keyed", {}, "k") for _ in range(2)]
    with sessions(witnessed.dsn, 2) as pair:
        for conn, one in zip(pair, wanted, strict=True):
            history.ask((one.id, one.task))
            history.answer((one.id, enqueue(conn, one)))
    assert broken(gather(db, history)).keys() <= {1, 13}, "only that nobody has run it yet"
