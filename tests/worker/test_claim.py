"""As many jobs as there are slots, in line, of the queues and tasks that are served here, and no others."""

from __future__ import annotations

import asyncio

import pytest

from tests.sessions import Session, call, query, scalar, value
from tests.worker.work import all_over, at_rest, comes_to, counts, report, soon, starting, state, working
from wakeful.app import Wakeful
from wakeful.run.context import Context


async def test_jobs_start_in_the_order_of_priority_and_then_of_age(app: Wakeful, db: Session) -> None:
    order: list[int] = []

    @app.task(name="t")
    async def t(number: int) -> None:
        order.append(number)

    priorities = [0, 100, -100, 0, 7]
    ids = [await t.using(priority=priority).aenqueue(n) for n, priority in enumerate(priorities)]
    async with starting(app, concurrency=1):
        await all_over(db, ids)
    assert order == [1, 4, 0, 3, 2]


async def test_a_more_urgent_job_soon_goes_ahead_of_a_backlog(app: Wakeful) -> None:
    started: list[str] = []

    @app.task(name="t")
    async def t() -> None:
        started.append("t")
        await asyncio.sleep(0.005)

    @app.task(name="urgent")
    async def urgent() -> None:
        started.append("urgent")

    await t.aenqueue_many([{}] * 4000)
    passed_over_by = []
    async with starting(app, concurrency=1):
        for nth in (1, 2, 3):
            await soon(lambda nth=nth: len(started) > 100 * nth)  # type: ignore[misc]
            came = len(started)
            await urgent.using(priority=10).aenqueue()
            await soon(lambda nth=nth: started.count("urgent") == nth)  # type: ignore[misc]
            passed_over_by.append(len(started) - came)
    # The best of three: what a look costs on a machine that stalls is waited for twenty times.
    assert min(passed_over_by) < 300


async def test_no_more_jobs_are_taken_than_there_are_slots(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()
    running = most = 0

    @app.task(name="t")
    async def t() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    ids = await t.aenqueue_many([{} for _ in range(10)])
    async with working(app, concurrency=3):
        held = scalar(db, "select count(*) from wakeful.job where state = 2")
        go.set()
        await all_over(db, ids)
    assert (held, most) == (3, 3)


async def test_a_slow_job_never_holds_the_fast_lane(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="slow", queue="general")
    async def slow() -> None:
        await go.wait()

    @app.task(name="quick", queue="fast")
    async def quick() -> None: ...

    held = await slow.aenqueue_many([{} for _ in range(10)])
    async with starting(app, queues="fast:2,general:3"):
        await soon(lambda: scalar(db, "select count(*) from wakeful.job where state = 2") == 3)
        for _ in range(5):
            await comes_to(db, await quick.aenqueue(), "completed")
        assert scalar(db, "select count(*) from wakeful.job where state = 2") == 3
        go.set()
        assert await all_over(db, held) == {"completed": 10}


async def test_queues_without_slots_of_their_own_share_the_rest(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        await go.wait()

    ids = [await t.using(queue=queue).aenqueue() for queue in ("a", "a", "b", "b", "c", "c", "d")]
    async with working(app, queues="a:1,b,c", concurrency=2):
        held = query(db, "select queue, count(*) from wakeful.job where state = 2 group by queue")
        go.set()
        assert await all_over(db, ids[:-1]) == {"completed": 6}
        assert state(db, ids[-1]) == "ready"
    by_queue = {row["queue"]: row["count"] for row in held}
    assert by_queue["a"] == 1
    assert by_queue.get("b", 0) + by_queue.get("c", 0) == 2


async def test_jobs_of_tasks_that_are_not_registered_are_left_alone(app: Wakeful, db: Session) -> None:
    @app.task(name="known")
    async def known() -> None: ...

    unknown = [value(db, "enqueue", task="unknown", payload={}, priority=100) for _ in range(50)]
    later = value(db, "enqueue", task="unknown", payload={}, delay="1 second")
    async with working(app) as worker:
        await comes_to(db, await known.aenqueue(), "completed")
        said = counts(worker)
        await asyncio.sleep(0.3)
        assert counts(worker)["claims"] - said["claims"] <= 2, "it walks over blocked heads again and again"
    assert {report(db, id)["attempt"] for id in [*unknown, later]} == {0}


@pytest.mark.parametrize(("kind", "name"), [("queue", "default"), ("task", "t")])
async def test_what_is_paused_does_not_run_and_burns_no_attempt(
    app: Wakeful, db: Session, kind: str, name: str
) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    @app.task(name="other", queue="other")
    async def other() -> None: ...

    async with working(app):
        call(db, f"pause_{kind}", name=name)
        ids = await t.aenqueue_many([{} for _ in range(5)])
        scheduled = value(db, "enqueue", task="t", payload={}, delay="200 ms")
        await comes_to(db, await other.aenqueue(), "completed")
        await soon(lambda: scalar(db, "select run_at < now() from wakeful.jobs where id = %s", scheduled))
    # A worker that comes later knows it too.
    async with working(app):
        await comes_to(db, await other.aenqueue(), "completed")
        assert {(report(db, id)["state"], report(db, id)["attempt"]) for id in ids} == {("ready", 0)}
        assert state(db, scheduled) == "scheduled"
        call(db, f"resume_{kind}", name=name)
        assert await all_over(db, [*ids, scheduled]) == {"completed": 6}


async def test_a_pause_reaches_every_worker_at_once(app: Wakeful, db: Session) -> None:
    started: list[int] = []

    @app.task(name="t")
    async def t(number: int) -> None:
        started.append(number)
        await asyncio.sleep(0.005)

    ids = await t.aenqueue_many([{"number": number} for number in range(300)])
    async with starting(app, concurrency=2), starting(app, concurrency=2):
        await soon(lambda: len(started) > 20)
        await asyncio.to_thread(call, db, "pause_task", name="t")
        # What was taken before may still run, but nothing is taken any more.
        await soon(lambda: scalar(db, "select count(*) from wakeful.job where state = 2") == 0)
        left = scalar(db, "select count(*) from wakeful.job")
        assert left > 0
        await asyncio.sleep(0.2)
        assert scalar(db, "select count(*) from wakeful.job") == left
        call(db, "resume_task", name="t")
        assert await all_over(db, ids) == {"completed": 300}
    assert sorted(started) == list(range(300))


async def test_without_faults_no_job_starts_twice(app: Wakeful, db: Session) -> None:
    started: list[int] = []

    @app.task(name="t")
    async def t(ctx: Context, number: int) -> None:
        assert ctx.attempt == ctx.epoch == 1
        started.append(number)

    ids = await t.aenqueue_many([{"number": number} for number in range(1500)])
    async with starting(app, concurrency=8), starting(app, concurrency=8), starting(app, concurrency=8):
        assert await all_over(db, ids, 60) == {"completed": 1500}
    assert sorted(started) == list(range(1500))


async def test_what_was_held_ready_is_handed_back_unharmed(app: Wakeful, db: Session) -> None:
    """Quick jobs make the worker take more than it has slots for; then come slow ones."""
    go, slow_ones = asyncio.Event(), 0

    @app.task(name="quick")
    async def quick() -> None: ...

    @app.task(name="slow")
    async def slow() -> None:
        nonlocal slow_ones
        slow_ones += 1
        await go.wait()

    await quick.aenqueue_many([{} for _ in range(500)])
    ids = await slow.aenqueue_many([{} for _ in range(50)])
    async with starting(app, concurrency=2) as worker:
        await soon(lambda: slow_ones == 2)
        await at_rest(worker)
        held = scalar(db, "select count(*) from wakeful.job where state = 2")
        assert held > 2, "nothing was held ready: this test proves nothing"
        worker.stop()
        await soon(lambda: scalar(db, "select count(*) from wakeful.job where state = 2") == 2)
        go.set()
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") == 502)
    rows = [report(db, id) for id in ids]
    assert [row["attempt"] for row in rows if row["state"] == "ready"] == [0] * 48
    assert sum(row["state"] == "completed" for row in rows) == slow_ones == 2


async def test_orphans_are_told_of(app: Wakeful, db: Session) -> None:
    """What waits for a worker that knows its task is seen by comparing the queues' health with the workers."""

    @app.task(name="known")
    async def known() -> None: ...

    value(db, "enqueue", task="unknown", payload={})
    async with working(app):
        orphans = query(
            db,
            "select h.task, h.count from wakeful.queue_health h where h.state = 'ready'"
            " and not exists (select from wakeful.workers w where w.alive and h.task = any (w.tasks))",
        )
    assert orphans == [{"task": "unknown", "count": 1}]
