"""Single enqueues of one event loop at the same time: one insert, one commit, each its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from tests.poison import refuse_poison
from tests.sessions import Session, query, scalar, session, until
from wakeful import JobId, Wakeful
from wakeful.produce.boarding import FLIGHTS
from wakeful.testing import Database


@pytest.fixture
async def app(database: Database) -> AsyncIterator[Wakeful]:
    async with Wakeful(database.dsn) as made:
        await made.aenqueue("warm")
        yield made


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


async def test_callers_share_a_commit_and_each_has_its_own_job(app: Wakeful, db: Session) -> None:
    ids = await asyncio.gather(*(app.aenqueue("t", {"n": n}) for n in range(500)))
    found = {row["id"]: row["n"] for row in query(db, "select id, payload ->> 'n' as n from wakeful.job")}
    assert [found[id] for id in ids if id is not None] == [str(n) for n in range(500)]
    transactions = {row["xmin"] for row in query(db, "select xmin::text from wakeful.job where task = 't'")}
    # All of them in one would wait while nothing is under way.
    assert len(transactions) == FLIGHTS


async def test_no_caller_is_forgotten_in_a_long_run(app: Wakeful, db: Session) -> None:
    numbers = iter(range(2000))

    async def caller() -> int:
        made = 0
        for number in numbers:
            assert await app.aenqueue("t", {"n": number}) is not None
            made += 1
        return made

    assert sum(await asyncio.gather(*(caller() for _ in range(20)))) == 2000
    assert scalar(db, "select count(*) from wakeful.job where task = 't'") == 2000


async def test_a_caller_is_answered_after_its_own_commit(app: Wakeful, db: Session) -> None:
    async def caller(number: int) -> None:
        id = await app.aenqueue("t", {"n": number})
        assert scalar(db, "select count(*) from wakeful.job where id = %s", id) == 1

    await asyncio.gather(*(caller(number) for number in range(30)))


async def test_one_bad_row_fails_alone_with_its_own_error(app: Wakeful, db: Session) -> None:
    refuse_poison(db)
    calls = [app.aenqueue("t", {"poison": n} if n in (3, 17) else {"n": n}) for n in range(40)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    bad = [n for n, answer in enumerate(answers) if isinstance(answer, BaseException)]
    assert bad == [3, 17]
    assert all(isinstance(answers[n], psycopg.errors.RaiseException) for n in bad)
    assert scalar(db, "select count(*) from wakeful.job where task = 't'") == 38


async def test_an_error_that_concerns_all_is_told_to_each_as_its_own(app: Wakeful, db: Session) -> None:
    db.execute("drop function wakeful.someone_hears")
    calls = (app.aenqueue("t", {"n": n}) for n in range(40))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {str(answer) for answer in answers if isinstance(answer, Exception)} == {str(answers[0])}
    assert len({id(answer) for answer in answers}) == 40


async def test_a_stalled_twin_stalls_nobody_else(app: Wakeful, db: Session, database: Database) -> None:
    with database.connect() as other, other.transaction():
        other.execute("select wakeful.enqueue('t', dedup_key => 'k')")
        stalled = [asyncio.create_task(app.aenqueue("t", dedup_key="k")) for _ in range(2)]
        await asyncio.to_thread(until, lambda: len(blocked(db)) == 2)
        free = [app.aenqueue("t", {"n": n}) for n in range(20)]
        keyed = [app.aenqueue("t", dedup_key=f"other {n}") for n in range(20)]
        async with asyncio.timeout(20):
            assert None not in await asyncio.gather(*free, *keyed)
        assert not any(task.done() for task in stalled)
    ids = await asyncio.gather(*stalled)
    assert {id.action for id in ids if id is not None} == {"skipped"}


async def test_a_twin_whose_transaction_rolls_back_leaves_one_job(
    app: Wakeful, db: Session, database: Database
) -> None:
    with database.connect() as other:
        with other.transaction(force_rollback=True):
            other.execute("select wakeful.enqueue('t', dedup_key => 'k')")
            stalled = asyncio.create_task(app.aenqueue("t", dedup_key="k"))
            await asyncio.to_thread(until, lambda: len(blocked(db)) == 1)
        id = await stalled
    assert id is not None
    assert id.action == "inserted"


async def test_a_cancelled_caller_withdraws_what_was_not_sent(app: Wakeful, db: Session, database: Database) -> None:
    with database.connect() as other, other.transaction():
        other.execute("lock table wakeful.job in exclusive mode")
        flying = []
        for number in range(FLIGHTS):
            flying.append(asyncio.create_task(app.aenqueue("t", {"flying": number})))
            await asyncio.to_thread(until, lambda: len(blocked(db)) == len(flying))
        gathered = [asyncio.create_task(app.aenqueue("t", {"n": n})) for n in range(10)]
        await asyncio.sleep(0.01)
        for task in gathered[::2]:
            task.cancel()
        flying[0].cancel()
        await asyncio.sleep(0.01)
    answers = await asyncio.gather(*gathered, *flying[1:], return_exceptions=True)
    cancelled = [n for n, answer in enumerate(answers) if isinstance(answer, asyncio.CancelledError)]
    assert cancelled == [0, 2, 4, 6, 8]
    kept = query(db, "select payload ->> 'n' as n from wakeful.job where payload ? 'n' order by id")
    assert [row["n"] for row in kept] == ["1", "3", "5", "7", "9"]
    # What was under way is not called back: it may be there, once.
    assert scalar(db, "select count(*) from wakeful.job where payload @> '{\"flying\": 0}'") == 1


async def test_a_loop_that_ends_leaves_nobody_waiting(database: Database) -> None:
    app = Wakeful(database.dsn)

    async def leave() -> None:
        for number in range(5):
            asyncio.create_task(app.aenqueue("t", {"n": number}))  # noqa: RUF006
        await asyncio.sleep(0)

    await asyncio.to_thread(asyncio.run, leave())
    app.close()


def test_each_loop_of_an_app_has_its_own_group(database: Database, db: Session) -> None:
    app = Wakeful(database.dsn)

    async def once() -> JobId | None:
        try:
            return await app.aenqueue("t")
        finally:
            await app.aclose()

    ids = [asyncio.run(once()) for _ in range(3)]
    assert scalar(db, "select count(*) from wakeful.job") == len(set(ids)) == 3


def blocked(db: Session) -> list[dict[str, object]]:
    """The sessions of apps that wait for a lock."""
    return query(
        db,
        "select pid from pg_stat_activity where datname = current_database() and application_name = 'wakeful'"
        " and cardinality(pg_blocking_pids(pid)) > 0",
    )


async def test_flights_that_are_cancelled_before_they_begin_leave_their_seats_to_others(app: Wakeful) -> None:
    for _ in range(3):
        caller = asyncio.create_task(app.aenqueue("t"))
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others)
        assert caller.cancelled()
    async with asyncio.timeout(20):
        assert await app.aenqueue("t")


async def test_who_waits_for_a_flight_that_never_began_is_taken_by_the_next(app: Wakeful) -> None:
    caller = asyncio.create_task(app.aenqueue("t"))
    await asyncio.sleep(0)
    [flight] = [task for task in asyncio.all_tasks() if task.get_name() == "wakeful enqueue"]
    flight.cancel()
    async with asyncio.timeout(20):
        assert await caller


async def prepared(app: Wakeful) -> None:
    """From now on a lone caller's job is sent before anything else is done."""
    for _ in range(7):
        await app.aenqueue("warm")


async def test_a_lone_callers_job_is_sent_before_its_flight_takes_off(app: Wakeful, db: Session) -> None:
    await prepared(app)
    calling = asyncio.create_task(app.aenqueue("t"))
    await asyncio.sleep(0)
    until(lambda: scalar(db, "select count(*) from wakeful.job where task = 't'") == 1)
    assert await calling is not None


async def test_a_flight_that_is_cancelled_before_it_takes_off_leaves_one_job(app: Wakeful, db: Session) -> None:
    await prepared(app)
    calling = asyncio.create_task(app.aenqueue("t"))
    await asyncio.sleep(0)
    flights = [task for task in asyncio.all_tasks() if task.get_name() == "wakeful enqueue"]
    assert len(flights) == 1
    flights[0].cancel()
    id = await asyncio.wait_for(calling, 20)
    assert id is not None
    assert id.action == "inserted"
    assert scalar(db, "select count(*) from wakeful.job where task = 't'") == 1


async def test_a_lone_callers_job_whose_answer_is_lost_is_sent_again(app: Wakeful, db: Session) -> None:
    await prepared(app)
    calling = asyncio.create_task(app.aenqueue("t"))
    await asyncio.sleep(0)
    kill = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'wakeful'"
    db.execute(f"{kill} and datname = current_database()".encode())
    id = await asyncio.wait_for(calling, 20)
    assert id is not None
    assert scalar(db, "select count(*) from wakeful.job where task = 't'") == 1


async def test_those_who_come_together_are_not_sent_apart(app: Wakeful, db: Session) -> None:
    """Each of several would go alone, and pay for a commit of its own."""
    for _ in range(10):
        await asyncio.gather(*(app.aenqueue("t") for _ in range(10)))
    assert scalar(db, "select count(distinct xmin::text) from wakeful.job where task = 't'") <= 20


async def test_who_is_refused_alone_is_told_why(app: Wakeful, db: Session) -> None:
    await prepared(app)
    refuse_poison(db)
    with pytest.raises(psycopg.errors.RaiseException):
        await app.aenqueue("t", {"poison": 1})
    assert await app.aenqueue("t") is not None
