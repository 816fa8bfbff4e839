"""Single enqueues of many threads at the same time: whoever comes first flushes for those who wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.poison import refuse_poison
from tests.sessions import Session, background, query, scalar, session, until
from wakeful import Wakeful
from wakeful.statements.statement import Statement
from wakeful.testing import Database


@pytest.fixture
def app(database: Database) -> Iterator[Wakeful]:
    with Wakeful(database.dsn) as made:
        made.enqueue("warm")
        yield made


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


def test_two_hundred_threads_each_get_their_own_jobs(app: Wakeful, db: Session) -> None:
    def caller(number: int) -> list[tuple[object, int]]:
        return [(app.enqueue("t", {"n": n}), n) for n in range(number * 10, number * 10 + 10)]

    with ThreadPoolExecutor(200) as pool:
        made = dict(pair for pairs in pool.map(caller, range(200)) for pair in pairs)
    found = {
        row["id"]: row["n"]
        for row in query(db, "select id, (payload ->> 'n')::int as n from wakeful.job where task = 't'")
    }
    assert found == made
    assert len(found) == 2000


def test_threads_that_wait_share_a_commit(app: Wakeful, db: Session, database: Database) -> None:
    with database.connect() as other, background() as start:
        with other.transaction():
            other.execute("lock table wakeful.job in exclusive mode")
            calls = [start(app.enqueue, "t", {"n": n}) for n in range(8)]
            until(lambda: len(blocked(db)) >= 1 and waiting(app) >= 6)
        ids = [call.result() for call in calls]
    assert len(set(ids)) == 8
    transactions = query(db, "select distinct xmin::text from wakeful.job where task = 't'")
    # Two that were the first to fly, those who waited for them, and who came after that.
    assert len(transactions) <= 4


def test_one_bad_row_fails_alone_with_its_own_error(app: Wakeful, db: Session) -> None:
    refuse_poison(db)

    def caller(number: int) -> bool:
        try:
            return app.enqueue("t", {"poison": 1} if number == 7 else {"n": number}) is None
        except psycopg.errors.RaiseException:
            return True

    with ThreadPoolExecutor(40) as pool:
        failed = [number for number, bad in enumerate(pool.map(caller, range(40))) if bad]
    assert failed == [7]
    assert scalar(db, "select count(*) from wakeful.job where task = 't'") == 39


def test_a_stalled_twin_stalls_nobody_else(app: Wakeful, db: Session, database: Database) -> None:
    with database.connect() as other, background() as start:
        with other.transaction():
            other.execute("select wakeful.enqueue('t', dedup_key => 'k')")
            stalled = [start(app.enqueue, "t", dedup_key="k") for _ in range(2)]
            until(lambda: len(blocked(db)) == 2)
            assert all(app.enqueue("t", {"n": n}) for n in range(10))
            assert all(app.enqueue("t", dedup_key=f"other {n}") for n in range(10))
            assert not any(call.done() for call in stalled)
        assert {call.result().action for call in stalled} == {"skipped"}


def test_a_leader_that_is_interrupted_leaves_nobody_waiting(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C reaches the thread that flushes for all: the others' jobs are sent again by the next of them."""
    run, script, gathered = app.database.run, iter(["wait", "interrupt"]), threading.Event()

    def scripted(statement: Statement[Any]) -> Any:
        step = next(script, None)
        if step == "wait":
            gathered.wait(10)
        answer = run(statement)
        if step == "interrupt":
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr("wakeful.produce.thread_group.FLIGHTS", 1)
    monkeypatch.setattr(app.database, "run", scripted)
    with background() as start:
        calls = [start(app.enqueue, "t", {"n": n}) for n in range(6)]
        until(lambda: waiting(app) == 5)
        gathered.set()
        errors = [type(call.exception()) for call in calls]
    assert sorted(kind.__name__ for kind in errors) == ["KeyboardInterrupt", *["NoneType"] * 5]
    made = [call.result() for call in calls if call.exception() is None]
    assert {id.action for id in made} == {"inserted"}
    assert scalar(db, "select count(*) from wakeful.job where task = 't'") == 6


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_enqueues_for_itself(app: Wakeful, db: Session) -> None:
    child = os.fork()
    if child == 0:
        # Whatever happens here, the child must not go on as a second test run.
        try:
            made = app.enqueue("t", {"of": "child"})
            os._exit(0 if made is not None else 1)
        finally:
            os._exit(2)
    assert app.enqueue("t", {"of": "parent"}) is not None
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert scalar(db, "select count(*) from wakeful.job where task = 't'") == 2
    assert app.enqueue("t") is not None


def waiting(app: Wakeful) -> int:
    return len(app.producer._of_this_process().group._waiting)


def blocked(db: Session) -> list[dict[str, object]]:
    """The sessions of apps that wait for a lock."""
    return query(
        db,
        "select pid from pg_stat_activity where datname = current_database() and application_name = 'wakeful'"
        " and cardinality(pg_blocking_pids(pid)) > 0",
    )
