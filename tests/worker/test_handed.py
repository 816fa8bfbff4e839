"""Jobs that are handed to a sleeping worker: started with no claim, once, and lost with no worker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from tests.sessions import Session, query, scalar
from tests.verbs import enqueue_one, register, worker_claim
from tests.worker.processes import Fleet, Journal, until
from tests.worker.work import at_rest, comes_to, counts, report, shift_of, soon, state, working
from wakeful import Wakeful
from wakeful.run.context import Context
from wakeful.values.identity import new_id
from wakeful.values.wakeup import Handed
from wakeful.worker import Worker

# The confirmation is prepared when it has been sent so often, and sent by itself from then on.
OFTEN = 7


@pytest.fixture(autouse=True)
def started(app: Wakeful) -> list[int]:
    numbers: list[int] = []

    @app.task(name="t")
    async def t(number: int = 0) -> None:
        numbers.append(number)

    return numbers


@asynccontextmanager
async def practised(app: Wakeful, db: Session, **flags: Any) -> AsyncIterator[Worker]:
    """A worker that has been handed jobs before, and sleeps."""
    async with working(app, **flags) as worker:
        for _ in range(OFTEN):
            await comes_to(db, await app.aenqueue("t"), "completed")
            await soon(lambda: takes(db))
        await at_rest(worker)
        yield worker


def takes(db: Session) -> bool:
    return bool(query(db, "select from wakeful.sleeper where takes is not null"))


def hand_over(db: Session, **options: Any) -> UUID:
    id = new_id()
    assert enqueue_one(db, id=id, **options) is None
    return id


async def test_it_costs_a_confirmation_and_no_claim(app: Wakeful, db: Session, started: list[int]) -> None:
    async with practised(app, db) as worker:
        before = counts(worker)
        for number in range(3):
            await comes_to(db, await app.aenqueue("t", {"number": 100 + number}), "completed")
        after = counts(worker)
    assert after["handed_over"] - before["handed_over"] == 3
    assert after["claims"] == before["claims"]
    assert started[-3:] == [100, 101, 102]


async def test_an_enqueue_from_a_thread_is_handed_over_too(app: Wakeful, db: Session) -> None:
    async with practised(app, db) as worker:
        before = counts(worker)["handed_over"]
        await comes_to(db, await asyncio.to_thread(app.enqueue, "t"), "completed")
        assert counts(worker)["handed_over"] == before + 1


async def test_a_result_an_error_and_a_context_are_as_ever(app: Wakeful, db: Session) -> None:
    @app.task(name="tells")
    async def tells(ctx: Context, fails: bool) -> list[object]:
        if fails:
            raise ValueError("no")
        return [ctx.attempt, ctx.epoch, str(ctx.correlation_id) == str(ctx.job.id)]

    async with practised(app, db):
        assert (await comes_to(db, await tells.aenqueue(fails=False), "completed"))["result"] == [1, 1, True]
        await soon(lambda: takes(db))
        failed = await comes_to(db, await tells.aenqueue(fails=True), "scheduled")
        assert failed["last_error_message"] == "no"


@pytest.mark.parametrize("often", [0, OFTEN], ids=["before it is prepared", "sent by itself"])
async def test_a_handler_that_blocks_the_loop_keeps_its_job(app: Wakeful, db: Session, often: int) -> None:
    """What a worker that cannot confirm would lose after five seconds, which are a fifth of one here."""
    db.execute("create or replace function wakeful.handed_lease() returns interval immutable return interval '0.2 s'")
    rescued: list[object] = []

    @app.task(name="blocks")
    async def blocks() -> None:
        time.sleep(0.4)
        rescued.extend(worker_claim(db, register(db, tasks=["blocks"]), tasks=["blocks"])[0])

    try:
        async with working(app):
            for _ in range(often):
                await comes_to(db, await app.aenqueue("t"), "completed")
                await soon(lambda: takes(db))
            row = await comes_to(db, await blocks.aenqueue(), "completed")
    finally:
        db.execute("create or replace function wakeful.handed_lease() returns interval immutable return interval '5 s'")
    assert rescued == []
    assert row["attempt"] == 1


async def test_one_that_was_long_on_its_way_starts_when_it_is_known_to_be_ours(
    app: Wakeful, db: Session, started: list[int]
) -> None:
    async with practised(app, db) as worker:
        calls, stranger = shift_of(worker)._loop._calls, of_nobody(worker, 6)
        # By this, the database's clock is an hour ahead of what the jobs tell.
        assert calls._clock_told is not None
        calls._clock_told = (calls._clock_told[0] + 3_600_000_000, calls._clock_told[1])
        await comes_to(db, hand_over(db, payload={"number": 5}), "completed")
        assert started[-1] == 5
        shift_of(worker)._loop.hear(Handed(stranger))
        await at_rest(worker)
        assert started[-1] == 5, "it is not ours"


async def test_a_handler_is_told_that_its_job_is_anothers(app: Wakeful, db: Session) -> None:
    told = asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            told.set()
            raise

    async with practised(app, db) as worker:
        shift_of(worker)._loop.hear(Handed(of_nobody(worker, 0, task="waits", payload="{}")))
        await asyncio.wait_for(told.wait(), 20)


async def test_a_job_of_another_format_does_no_harm(app: Wakeful, db: Session) -> None:
    async with practised(app, db) as worker:
        shift_of(worker)._loop.hear(Handed(("nonsense",)))
        await at_rest(worker)
        await comes_to(db, await app.aenqueue("t"), "completed")


async def test_what_anybody_notifies_is_not_run(app: Wakeful, db: Session, started: list[int]) -> None:
    async with practised(app, db) as worker:
        before = len(started)
        forged = json.dumps(of_nobody(worker, 13))
        for channel in ("wakeful", f"wakeful_{shift_of(worker).worker_id.hex}"):
            db.execute("select pg_notify(%s, %s)", [channel, forged])
        await at_rest(worker)
        assert len(started) == before


async def test_who_stops_is_handed_nothing(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        await go.wait()

    async with practised(app, db) as worker:
        held = await waits.aenqueue()
        await comes_to(db, held, "running")
        worker.stop()
        await soon(lambda: not query(db, "select from wakeful.sleeper"))
        late = await app.aenqueue("t")
        assert state(db, late) == "ready"
        go.set()
        await comes_to(db, held, "completed")


async def test_what_was_on_its_way_to_who_stops_goes_back_uncharged(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        await go.wait()

    async with practised(app, db) as worker:
        held = await waits.aenqueue()
        await comes_to(db, held, "running")
        await soon(lambda: takes(db))
        late = hand_over(db)
        worker.stop()
        row = await comes_to(db, late, "ready")
        assert row["attempt"] == 0
        go.set()
        await comes_to(db, held, "completed")


@pytest.mark.parametrize("flags", [{"concurrency": 1}, {"queues": "default:1,other:4"}], ids=["one slot", "a lane"])
async def test_the_last_slot_is_for_what_is_in_line(app: Wakeful, db: Session, flags: dict[str, Any]) -> None:
    async with working(app, **flags) as worker:
        for _ in range(3):
            await comes_to(db, await app.aenqueue("t"), "completed")
        assert counts(worker)["handed_over"] == 0


async def test_who_has_slots_again_takes_jobs_again(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        await go.wait()

    async with practised(app, db, concurrency=3) as worker:
        before = counts(worker)["handed_over"]
        ids = [await waits.aenqueue() for _ in range(3)]
        for id in ids:
            await comes_to(db, id, "running")
        assert counts(worker)["handed_over"] < before + 3, "one slot is for what is in line"
        go.set()
        for id in ids:
            await comes_to(db, id, "completed")
        await soon(lambda: takes(db))
        assert scalar(db, "select max(attempt) from wakeful.finished_job") == 1


async def test_a_batch_gathers_what_is_handed_over(app: Wakeful, db: Session) -> None:
    batches: list[int] = []

    @app.task(name="gathers", batch=10, linger="300ms")
    async def gathers(items: list[dict[str, int]]) -> None:
        batches.append(len(items))

    async with practised(app, db, concurrency=20):
        ids = [await app.aenqueue("gathers", {"number": number}) for number in range(3)]
        for id in ids:
            await comes_to(db, id, "completed")
    assert sum(batches) == 3


def test_a_worker_that_was_killed_costs_nobody_time(db: Session, fleet: Fleet, journal: Journal) -> None:
    """Its listener is gone at once, and with it the sign that somebody is there."""
    first, _ = fleet.start().started(), fleet.start().started()
    until(lambda: scalar(db, "select count(*) from wakeful.sleeper where takes is not null") == 2)
    first.kill()
    listeners = "select count(*) from pg_stat_activity where application_name = 'wakeful listener'"
    until(lambda: scalar(db, f"{listeners} and datname = current_database()") == 1)
    ids = [hand_over_or_enqueue(db) for _ in range(10)]
    until(lambda: scalar(db, "select count(*) from wakeful.finished_job where id = any (%s)", ids) == 10)
    assert [report(db, id)["attempt"] for id in ids] == [1] * 10


def hand_over_or_enqueue(db: Session) -> UUID:
    id = new_id()
    enqueue_one(db, id=id, task="quick")
    return id


def of_nobody(worker: Worker, number: int, task: str = "t", payload: str | None = None) -> tuple[str | None, ...]:
    """What would be told of a job that there is not."""
    id = str(new_id())
    told = json.dumps({"number": number}) if payload is None else payload
    began = shift_of(worker)._loop._calls._clock_told
    assert began is not None
    at = began[0].to_bytes(8, "big", signed=True).hex()
    return (id, task, "default", told, "5", "0", at, id, None, None, None, None)
