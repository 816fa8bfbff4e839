"""Idle costs next to nothing, and one job does not wake a fleet."""

from __future__ import annotations

import asyncio
import json
import statistics
from contextlib import AsyncExitStack

from tests.sessions import Session, scalar, value
from tests.worker.proxy import link_to
from tests.worker.work import at_rest, comes_to, counts, heard, shift_of, soon, starting, state, working
from wakeful.app import Wakeful
from wakeful.testing import Database
from wakeful.worker import Worker


def declare(app: Wakeful) -> None:
    @app.task(name="t")
    async def t() -> None: ...


def claims(workers: list[Worker]) -> int:
    return sum(counts(worker)["claims"] for worker in workers)


async def test_twenty_idle_workers_and_one_job_make_three_claims_at_most(app: Wakeful, db: Session) -> None:
    declare(app)
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(starting(app, concurrency=4)) for _ in range(20)]
        await asyncio.gather(*(at_rest(worker) for worker in workers))
        caused: list[int] = []
        for _ in range(9):
            before = claims(workers)
            await comes_to(db, value(db, "enqueue", task="t", payload={}), "completed")
            await asyncio.gather(*(at_rest(worker, 0.2) for worker in workers))
            caused.append(claims(workers) - before)
    assert statistics.median(caused) <= 3, caused
    assert max(caused) <= 8, caused


async def test_one_claim_finds_the_job(app: Wakeful, db: Session) -> None:
    declare(app)
    async with working(app, concurrency=4) as worker:
        for _ in range(3):
            before = counts(worker)
            await comes_to(db, value(db, "enqueue", task="t", payload={}), "completed")
            await at_rest(worker)
            after = counts(worker)
            caused = {kind: after[kind] - before[kind] for kind in ("claims", "empty_claims", "pulses")}
            # The second one settles it, sees that there is no more, and goes back to sleep.
            assert caused == {"claims": 2, "empty_claims": 0, "pulses": 0}


async def test_a_burst_of_a_hundred_makes_eight_empty_claims_at_most(app: Wakeful, db: Session) -> None:
    declare(app)
    async with working(app, concurrency=4) as worker:
        before = counts(worker)
        db.execute("select wakeful.enqueue('t', '{}') from generate_series(1, 100)")
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 100)
        await at_rest(worker)
        assert counts(worker)["empty_claims"] - before["empty_claims"] <= 8


async def test_a_burst_over_many_workers_reaches_all_of_them(app: Wakeful, db: Session) -> None:
    """Who finds more than it can take pokes the next: eight workers of one slot, eight jobs that await each other."""
    together = asyncio.Barrier(8)

    @app.task(name="meet")
    async def meet() -> None:
        await together.wait()

    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(starting(app, concurrency=1)) for _ in range(8)]
        await asyncio.gather(*(at_rest(worker) for worker in workers))
        db.execute("select wakeful.enqueue('meet', '{}') from generate_series(1, 8)")
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 8)


async def test_who_was_poked_beside_one_that_has_died_passes_on_what_it_cannot_take(app: Wakeful, db: Session) -> None:
    """Two are poked: of two that live, in two rounds of three only one. It begins with the job that is named."""
    together = asyncio.Barrier(4)

    @app.task(name="meet")
    async def meet() -> None:
        await together.wait()

    async with working(app, concurrency=2) as one, working(app, concurrency=2) as other:
        db.execute("insert into wakeful.sleeper (worker_id, queues, tasks) values (gen_random_uuid(), null, '{meet}')")
        for met in range(1, 7):
            db.execute("select wakeful.enqueue('meet', '{}') from generate_series(1, 4)")
            await soon(lambda met=met: scalar(db, "select count(*) from wakeful.finished_job") == 4 * met)  # type: ignore[misc]
            await asyncio.gather(at_rest(one), at_rest(other))


async def test_a_poke_spent_on_a_worker_that_is_busy_reaches_one_that_is_not(app: Wakeful, db: Session) -> None:
    """As when it was chosen while its claim, which took its last slot, had not yet committed."""
    go, begun = asyncio.Event(), asyncio.Event()
    declare(app)

    @app.task(name="waits")
    async def waits() -> None:
        begun.set()
        await go.wait()

    async with working(app, concurrency=1) as busy:
        held = await waits.aenqueue()
        await heard(begun)
        async with working(app, concurrency=1):
            id = value(db, "enqueue", task="t", payload={}, poke=False)
            hint = json.dumps({"q": "default", "in": 0})
            db.execute("select pg_notify(wakeful.channel_of(%s), %s)", [shift_of(busy).worker_id, hint])
            # Long before the lease of the busy one would make the other look.
            await soon(lambda: state(db, id) == "completed", 20)
        go.set()
        await comes_to(db, held, "completed")


async def test_an_idle_worker_sends_little_more_than_its_pulse(database: Database) -> None:
    """Everything counts that goes over its connections. By default that is a pulse in 20 s, and 0.07 a second at most.

    Here all times are a tenth of what they are by default: 1.4 statements for each pulse is the same measure.
    """
    pulses = 5
    async with link_to(database.dsn) as link, Wakeful(link.dsn) as app:
        declare(app)
        async with starting(app, concurrency=4, poll_interval=2, lease=3) as worker:
            await at_rest(worker)
            before, pulsed = link.statements, counts(worker)["pulses"]
            await soon(lambda: counts(worker)["pulses"] == pulsed + pulses)
            sent = link.statements - before
    # The last of them may not have come through yet.
    assert pulses - 1 <= sent <= 1.4 * pulses
