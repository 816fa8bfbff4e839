"""What test suites are given: jobs run in place, time moved, what was enqueued looked for."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.sessions import scalar, session, until
from wakeful import InvalidOption, Retry, SyncContext, UnknownTask, Wakeful
from wakeful.testing import Database, Databases, Sandbox, sandboxed

Opens = Callable[[Wakeful], Sandbox]

app = Wakeful("postgresql://nobody@localhost:1/none")
CLONING = "select exists (select from pg_stat_activity where query like 'create database%%' and state = 'active')"
mails: list[tuple[str, str]] = []


@app.task(name="mail.send")
def send(to: str, subject: str = "hello") -> None:
    mails.append((to, subject))


@app.task(name="mail.both")
async def both(first: str, second: str) -> None:
    await send.aenqueue(first)
    await send.aenqueue(second)


@app.task(name="mail.fails", max_attempts=2)
def fails() -> None:
    raise Retry(after="2h")


@app.task(name="mail.tagged")
def tagged(id: UUID, at: datetime) -> None: ...


@pytest.fixture
def box(sandbox: Opens) -> Sandbox:
    mails.clear()
    return sandbox(app)


def test_a_database_is_there_in_less_than_fifty_milliseconds(databases: Databases) -> None:
    """The server makes the next one while a test runs; a second is more than it needs on the slowest machine."""
    taken = []
    for _ in range(6):
        began = time.perf_counter()
        with databases.migrated() as mine:
            taken.append(time.perf_counter() - began)
            with session(mine.dsn) as conn:
                until(lambda: not scalar(conn, CLONING))
    assert statistics.median(taken) < 0.05, taken


def test_drain_runs_what_is_due_and_what_that_enqueues(box: Sandbox) -> None:
    both.enqueue("ada", "bob")
    send.using(delay="1h").enqueue("later")
    summary = box.drain()
    assert (summary.processed, summary.succeeded) == (3, 3)
    assert sorted(mails) == [("ada", "hello"), ("bob", "hello")]
    assert box.drain().processed == 0


def test_drain_stops_at_its_limit(box: Sandbox) -> None:
    send.enqueue_many([{"to": str(number)} for number in range(5)])
    assert box.drain(2).processed == 2
    assert box.drain().processed == 3


async def test_drain_in_async_code(box: Sandbox) -> None:
    """`adrain` on the same loop, and `drain`, for sync code under test, beside it."""
    heard = asyncio.Event()

    @app.task(name="mail.heard")
    async def ring() -> None:
        heard.set()

    await ring.aenqueue()
    assert (await box.adrain()).succeeded == 1
    assert heard.is_set()
    await send.aenqueue("ada")
    assert box.drain().succeeded == 1


def test_time_travels_to_a_retry(box: Sandbox) -> None:
    fails.enqueue()
    assert box.drain().processed == 1
    assert box.drain().processed == 0
    box.travel(hours=1)
    assert box.drain().processed == 0
    box.travel(timedelta(hours=1, seconds=1))
    assert box.drain().processed == 1
    assert [job.state for job in box.jobs()] == ["dead"]


def test_time_travels_to_a_moment(box: Sandbox) -> None:
    then = datetime(2031, 3, 30, 1, tzinfo=UTC)
    assert abs(box.travel(to=then) - then) < timedelta(seconds=5)
    assert abs(box.travel(minutes=-30) - then + timedelta(minutes=30)) < timedelta(seconds=5)


def test_sessions_that_are_open_travel_too_and_other_databases_do_not(box: Sandbox, databases: Databases) -> None:
    ask = "select wakeful.now() - clock_timestamp() > interval '1 hour'"
    with session(box.database.dsn) as inside, databases.migrated() as other, session(other.dsn) as outside:
        for _ in range(8):
            assert not scalar(inside, ask)
        with inside.transaction():
            assert not scalar(inside, ask)
            box.travel(hours=2)
            assert scalar(inside, ask)
        assert not scalar(outside, ask)
        box.travel(hours=-2)
        assert not scalar(inside, ask)


def test_a_role_that_may_only_enqueue_travels_along(box: Sandbox) -> None:
    box.travel(hours=2)
    with session(box.database.dsn) as conn:
        conn.execute("set role wakeful_producer")
        conn.execute("select wakeful.enqueue('mail.send')")
        assert scalar(conn, "select wakeful.now() - clock_timestamp() > interval '1 hour'")


async def test_a_worker_that_sleeps_hears_of_it(box: Sandbox) -> None:
    await send.using(delay="1h").aenqueue("ada")
    worker = app.worker(poll_interval=60)
    started = asyncio.Event()
    running = asyncio.create_task(worker.arun(started=started.set))
    await started.wait()
    await asyncio.sleep(0.3)
    await asyncio.to_thread(box.travel, hours=2)
    async with asyncio.timeout(15):
        while not mails:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    worker.stop()
    await running


@pytest.mark.parametrize("how", [{}, {"hours": 1, "to": datetime.now(UTC)}])
def test_a_journey_without_a_distance_is_refused(box: Sandbox, how: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="how far"):
        box.travel(**how)  # type: ignore[arg-type]


def test_what_was_enqueued_is_found_by_its_arguments(box: Sandbox) -> None:
    send.enqueue("ada", subject="hi")
    send.enqueue("bob")
    found = box.enqueued(send, to="ada")
    assert (found.payload, found.state) == ({"to": "ada", "subject": "hi"}, "ready")
    assert box.enqueued("mail.send").payload["to"] == "bob"
    box.drain()
    assert box.enqueued(send, subject="hi", to="ada").state == "completed"
    box.not_enqueued(send, to="eve")
    box.not_enqueued(both)


def test_arguments_are_compared_as_they_are_stored(box: Sandbox) -> None:
    id, at = uuid4(), datetime(2026, 1, 1, 12, tzinfo=UTC)
    tagged.enqueue(id, at)
    box.enqueued(tagged, id=id, at=at)
    with pytest.raises(AssertionError):
        box.enqueued(tagged, id=uuid4())


def test_what_was_not_enqueued_is_told_argument_by_argument(box: Sandbox) -> None:
    send.enqueue("ada", subject="hi")
    send.enqueue("bob", subject="no")
    both.enqueue("a", "b")
    with pytest.raises(AssertionError) as told:
        box.enqueued(send, to="bob", subject="hi", cc="eve")
    [first, second] = [job.id for job in box.jobs(send)]
    assert str(told.value).splitlines() == [
        "No job of task mail.send was enqueued with to='bob', subject='hi', cc='eve'.",
        "Of this task there are 2:",
        f"  ready {first}",
        "    - to = 'ada'",
        "    + to = 'bob'",
        "      subject = 'hi'",
        "    + cc = 'eve'",
        f"  ready {second}",
        "      to = 'bob'",
        "    - subject = 'no'",
        "    + subject = 'hi'",
        "    + cc = 'eve'",
        "Of others: mail.both (1)",
    ]


def test_nothing_at_all_is_told_too(box: Sandbox) -> None:
    with pytest.raises(AssertionError, match=r"No job of task mail.send was enqueued.\nNothing was enqueued at all."):
        box.enqueued(send)


def test_what_should_not_be_there_is_shown(box: Sandbox) -> None:
    send.enqueue("ada")
    with pytest.raises(AssertionError, match=r"(?s)1 of task mail.send was enqueued with to='ada':.*to='ada'"):
        box.not_enqueued(send, to="ada")


def test_a_name_that_is_mistyped_does_not_pass_as_never_enqueued(box: Sandbox) -> None:
    with pytest.raises(UnknownTask, match="No task is named"):
        box.not_enqueued("mail.sent")


def test_inline_whoever_enqueues_returns_when_it_has_run(box: Sandbox) -> None:
    with box.inline():
        send.enqueue("ada")
        assert mails == [("ada", "hello")]
        both.enqueue("bob", "eve")
        assert len(mails) == 3
        app.enqueue("mail.send", {"to": "ann"})
        assert len(mails) == 4
    send.enqueue("later")
    assert len(mails) == 4


async def test_inline_in_async_code(box: Sandbox) -> None:
    with box.inline():
        await both.aenqueue("bob", "eve")
        assert len(mails) == 2
        await send.aenqueue_many([{"to": "a"}, {"to": "b"}])
        assert len(mails) == 4
        send.enqueue("from sync code")
        assert len(mails) == 5


def test_inline_a_job_in_a_transaction_waits_for_its_commit(box: Sandbox) -> None:
    with box.inline(), psycopg.connect(box.database.dsn) as conn:
        send.using(conn).enqueue("ada")
        assert mails == []
        conn.commit()
        box.drain()
        assert len(mails) == 1


def test_a_handler_that_enqueues_inline_does_not_wait_for_itself(box: Sandbox) -> None:
    @app.task(name="mail.chain")
    def chain(ctx: SyncContext, length: int) -> None:
        if length:
            chain.enqueue(length - 1)

    with box.inline():
        chain.enqueue(5)
    assert [job.state for job in box.jobs("mail.chain")] == ["completed"] * 6


def test_the_app_is_what_it_was_afterwards(database: Database) -> None:
    one = Wakeful("postgresql://somewhere/else")
    with sandboxed(one, database) as box:
        one.enqueue("t")
        assert len(box.jobs()) == 1
        assert one.settings.database.dsn == database.dsn
    assert one.settings.database.dsn == "postgresql://somewhere/else"
    assert "database" not in one.__dict__


def test_schedules_are_fired_as_time_passes(sandbox: Opens) -> None:
    one = Wakeful("postgresql://somewhere/else")
    slots = []

    @one.schedule("0 3 * * *", tz="Europe/Helsinki")
    def nightly(ctx: SyncContext) -> None:
        slots.append(ctx.metadata["slot"])

    box = sandbox(one)
    box.drain()
    for _ in range(3):
        box.travel(days=1)
        box.drain()
    assert len(slots) == len(set(slots)) == 3
