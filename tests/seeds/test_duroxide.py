"""Seed 003, duroxide: the ten tests of its document, and nodes as processes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from examples.duroxide.__main__ import table
from examples.duroxide.app import LANES, SCHEMA, app, start
from examples.duroxide.measure import Figures, Observer
from examples.duroxide.nodes import nodes
from tests.acceptance.processes import wait_until
from tests.sessions import Ear, Session, call, query, scalar, session
from tests.worker.work import at_rest, counts
from wakeful import Wakeful
from wakeful.testing import Database, sandboxed
from wakeful.worker import Worker

# Far beyond any test's patience: what is found is not found by it.
NEVER = 600


@pytest.fixture(autouse=True)
def _on_this_database(database: Database) -> Iterator[None]:
    with sandboxed(app, database):
        yield


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        conn.execute(SCHEMA)
        yield conn


@pytest.fixture
def observer(database: Database, db: Session) -> Iterator[Observer]:
    with database.connect() as conn:
        made = Observer(app, conn)
        made.count_calls()
        yield made


@asynccontextmanager
async def dispatchers(db: Session, **flags: Any) -> AsyncIterator[Worker]:
    """Four a queue, in this process, asleep."""
    worker = app.worker(**{"queues": LANES, "poll_interval": NEVER, **flags})
    running = asyncio.create_task(worker.arun())
    try:
        if app.settings.database.notify:
            await soon(lambda: scalar(db, "select count(*) from wakeful.workers where asleep") == 1)
        yield worker
    finally:
        worker.stop()
        await running


async def soon(condition: Any) -> None:
    await asyncio.to_thread(wait_until, condition)


async def finishes(db: Session, instance: str) -> None:
    await soon(lambda: scalar(db, "select finished from orchestration where instance = %s", instance))


def new(workflow: str = "note", **options: Any) -> str:
    instance = uuid4().hex
    start(instance, workflow, **options)
    return instance


def started_late(db: Session, instance: str) -> timedelta:
    """How long after the moment it was visible its first turn began, by the database's clock."""
    late: timedelta = scalar(
        db,
        "select started_at - greatest(run_at, created_at) from wakeful.jobs where task = 'duroxide.turn'"
        " and payload ->> 'instance' = %s order by created_at limit 1",
        instance,
    )
    return late


def test_1_trigger_creation(db: Session) -> None:
    [found] = query(
        db,
        "select tgname, tgdeferrable, tginitdeferred from pg_trigger"
        " where tgrelid = 'wakeful.job'::regclass and tgconstraint <> 0",
    )
    assert found == {"tgname": "job_pokes_at_commit", "tgdeferrable": True, "tginitdeferred": True}


def asleep(db: Session) -> Any:
    """Someone who waits for orchestrator items, as far as the database knows."""
    me = uuid4()
    call(
        db,
        "claim_any_1",
        worker_id=me,
        queues=["orchestrator"],
        tasks=["duroxide.turn"],
        want=1,
        lease=timedelta(minutes=1),
        sleeps_for=timedelta(minutes=1),
        sleep_queues=["orchestrator"],
    )
    return me


def test_2_notify_emission(db: Session, database: Database) -> None:
    ear_of = asleep(db)
    with session(database.dsn) as listening:
        ear = Ear(listening, ear_of)
        new()
        [hint] = ear.heard(db)
    assert (hint["q"], hint["in"]) == ("orchestrator", 0)


def test_3_payload_parsing(db: Session, database: Database) -> None:
    """When the item becomes visible is told as a duration: only the database's clock decides."""
    ear_of = asleep(db)
    with session(database.dsn) as listening:
        ear = Ear(listening, ear_of)
        new(run_at=datetime.now(UTC) + timedelta(hours=1))
        [hint] = ear.heard(db)
    assert 3_500_000 < hint["in"] <= 3_600_100
    assert "at" not in hint


async def test_4_immediate_wake(db: Session) -> None:
    """In under 10 ms, as the document says. A busy machine is given more tries, not more time; no poll is near."""
    async with dispatchers(db):
        for _ in range(100):
            instance = new()
            await finishes(db, instance)
            if started_late(db, instance) < timedelta(milliseconds=10):
                break
    assert started_late(db, instance) < timedelta(milliseconds=10)


async def test_5_timer_wake(db: Session) -> None:
    async with dispatchers(db):
        instance = new(delay=0.4)
        await finishes(db, instance)
    assert timedelta(0) <= started_late(db, instance) < timedelta(seconds=5)


@pytest.mark.parametrize("count", [4, 16])
async def test_6_competing_consumer(count: int, db: Session) -> None:
    """One item makes one of them look, however many dispatchers there are."""
    async with dispatchers(db, queues=f"orchestrator:{count},worker:{count}") as worker:
        await finishes(db, new())
        await at_rest(worker)
        before, instance = counts(worker)["claims"], new()
        await finishes(db, instance)
        await at_rest(worker)
        claims = counts(worker)["claims"] - before
    assert scalar(db, "select count(*) from history where instance = %s", instance) == 1
    assert claims <= 2


async def test_7_fallback(db: Session, database: Database) -> None:
    """Without NOTIFY it still wakes, by the fallback interval."""
    app.settings = Wakeful(database.dsn, notify=False).settings
    async with dispatchers(db, poll_interval=0.5):
        instance = new()
        await finishes(db, instance)
    assert scalar(db, "select count(*) from wakeful.workers") == 0


async def test_8_timer_update(db: Session) -> None:
    """A timer, then an earlier one: it wakes for the earlier one."""
    async with dispatchers(db):
        late, early = new(delay=NEVER), new(delay=0.3)
        await finishes(db, early)
    assert started_late(db, early) >= timedelta(0)
    assert scalar(db, "select state from wakeful.jobs where payload ->> 'instance' = %s", late) == "scheduled"


async def test_9_throughput(db: Session, database: Database, observer: Observer) -> None:
    """Sleeping costs no throughput, compared with polling every 50 ms."""
    seconds = {}
    for notify in (True, False):
        app.settings = Wakeful(database.dsn, notify=notify).settings
        async with dispatchers(db, poll_interval=NEVER if notify else 0.05):
            seconds[notify] = await asyncio.to_thread(observer.drain, 300)
    assert seconds[True] < 3 * seconds[False] + 1


async def test_10_idle_load(db: Session) -> None:
    """Two seconds of nothing: nothing is asked. Over a long time it is the pulse alone: 0.05 queries a second."""
    async with dispatchers(db) as worker:
        await finishes(db, new())
        await at_rest(worker, seconds=2)


async def test_a_burst_of_a_hundred_makes_few_claims_in_vain(db: Session, observer: Observer) -> None:
    async with dispatchers(db) as worker:
        before = counts(worker)
        await asyncio.to_thread(observer.drain, 100)
        await at_rest(worker)
        after = counts(worker)
    assert after["empty_claims"] - before["empty_claims"] <= 8


def test_calls_are_counted_by_the_server(db: Session, database: Database, observer: Observer) -> None:
    """What the table is made of: no client can embellish it."""
    with session(database.dsn) as other:
        call(other, "claim", worker_id=uuid4())
        other.execute("select pg_stat_force_next_flush()")
    assert observer.calls("claim_1") == 1
    assert observer.calls("beat_1") == 0


async def test_an_order_goes_through_its_steps_with_its_timer(db: Session) -> None:
    async with dispatchers(db):
        instance = new("order")
        await finishes(db, instance)
    events = query(db, "select event, at from history where instance = %s order by step", instance)
    assert [row["event"] for row in events] == ["started", "reserve done", "timer fired", "ship done"]
    assert events[2]["at"] - events[1]["at"] >= timedelta(seconds=0.2)


def test_nodes_are_processes_and_one_that_is_killed_loses_nothing(db: Session, database: Database) -> None:
    observer_conn = database.connect()
    with observer_conn, nodes(database.dsn, 2, "--lease", "3") as started:
        observer = Observer(app, observer_conn)
        observer.until(lambda: observer.ask("select count(*) from wakeful.workers where asleep") == 2, "the nodes")
        instances = [new("order") for _ in range(40)]
        started[0].send_signal(signal.SIGKILL)
        observer.until(lambda: observer.finished(instances), "the orders")
    counts = query(db, "select instance, count(*) as events from history group by 1")
    assert {row["events"] for row in counts} == {4}
    assert len(counts) == 40


def test_the_table_is_the_documents(db: Session) -> None:
    told = table(Figures(0.1, 2.5, 1.0, 30, 4, 0.12), 2, 100)
    assert "0.050 q/s a node" in told
    assert "2.5 ms, timer +1.0 ms" in told
    assert "30, 4 of them empty, in 0.12 s" in told
