"""`claim(wait=…)`: who waits sleeps, is woken by the one job there is for it, and costs nothing meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial

import pytest

from tests.db.queues import LISTENERS, Start, Verbs, fall_asleep, looks, sleepers
from tests.sessions import Session, call, scalar, until
from tests.verbs import enqueue, enqueue_many
from wakeful.app import Wakeful
from wakeful.queue import ClaimedJob, Queue
from wakeful.testing import Database


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the loop go on turn by turn; `until` would block it."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("waited in vain")


def still_waiting(callers: list[Future[list[ClaimedJob]]]) -> int:
    return sum(not caller.done() for caller in callers)


async def test_a_waiting_caller_is_given_a_job_as_it_comes(verbs: Verbs, app: Wakeful, db: Session) -> None:
    waiting = asyncio.ensure_future(verbs.claim("t", wait=30))
    await asyncio.to_thread(fall_asleep, app, db)
    began = time.monotonic()
    id = enqueue(db)
    [job] = await waiting
    assert job.id == id
    assert time.monotonic() - began < 15
    assert sleepers(db) == 0, "nobody waits any more"
    await verbs.mark_completed(job)


async def test_a_wait_that_ends_gives_nothing_and_leaves_nothing_behind(verbs: Verbs, db: Session) -> None:
    began = time.monotonic()
    assert await verbs.claim(wait=0.4) == []
    assert 0.39 <= time.monotonic() - began < 15
    assert sleepers(db) == 0


async def test_a_scheduled_job_wakes_at_its_moment(verbs: Verbs, db: Session) -> None:
    enqueue(db, delay=timedelta(seconds=0.6))
    [job] = await verbs.claim(wait=10)
    late = scalar(db, "select started_at - run_at from wakeful.jobs")
    assert timedelta(0) <= late < timedelta(seconds=1)
    await verbs.mark_completed(job)


async def test_a_job_scheduled_while_one_waits_wakes_at_its_moment(verbs: Verbs, app: Wakeful, db: Session) -> None:
    waiting = asyncio.ensure_future(verbs.claim(wait=10))
    asleep = await asyncio.to_thread(fall_asleep, app, db)
    enqueue(db, delay=timedelta(seconds=0.4))
    [job] = await waiting
    assert scalar(db, "select started_at - run_at from wakeful.jobs") < timedelta(seconds=1)
    assert looks(app) - asleep <= 2
    await verbs.mark_completed(job)


def test_four_callers_share_one_listener_and_one_job_makes_one_of_them_look(
    start: Start,
    queue: Queue,
    app: Wakeful,
    database: Database,
    db: Session,
) -> None:
    waiting = [start(task="t", wait=30) for _ in range(4)]
    steady = fall_asleep(app, db, 4)
    assert scalar(db, LISTENERS, database.name) == 1
    for left in (3, 2, 1, 0):
        enqueue(db)
        until(partial(lambda left: still_waiting(waiting) == left, left))
    assert looks(app) - steady == 4, "one job, one look"
    assert scalar(db, LISTENERS, database.name) == 1
    assert sleepers(db) == 0
    jobs = [job for one in waiting for job in one.result()]
    assert len({job.id for job in jobs}) == 4


def test_a_batch_of_jobs_wakes_as_many_callers_as_it_has_jobs(start: Start, app: Wakeful, db: Session) -> None:
    waiting = [start(task="t", wait=30) for _ in range(4)]
    steady = fall_asleep(app, db, 4)
    enqueue_many(db, [{"task": "t"}] * 3)
    until(lambda: still_waiting(waiting) == 1)
    assert looks(app) - steady <= 4


async def test_threads_and_event_loops_wait_side_by_side(
    queue: Queue, app: Wakeful, database: Database, db: Session
) -> None:
    blocking = asyncio.ensure_future(asyncio.to_thread(queue.claim, "t", wait=30))
    awaiting = asyncio.ensure_future(queue.aclaim("t", wait=30))
    await asyncio.to_thread(fall_asleep, app, db, 2)
    assert scalar(db, LISTENERS, database.name) == 1
    ids = {enqueue(db), enqueue(db)}
    assert {job.id for jobs in await asyncio.gather(blocking, awaiting) for job in jobs} == ids
    await app.database.aclose()


def test_callers_who_want_different_things_are_woken_for_their_own(start: Start, app: Wakeful, db: Session) -> None:
    mail = start(task="send", queues="mail", wait=30)
    other = start(task="other", queues="rest", wait=30)
    steady = fall_asleep(app, db, 2)
    id = enqueue(db, "other", queue="rest")
    assert [job.id for job in other.result(10)] == [id]
    assert not mail.done()
    assert looks(app) - steady == 1, "a queue that nobody was poked for costs no look"
    assert sleepers(db) == 1
    id = enqueue(db, "send", queue="mail")
    assert [job.id for job in mail.result(10)] == [id]
    assert sleepers(db) == 0


@pytest.mark.parametrize("how", ["released", "retried", "resumed", "replaced", "hurried", "requeued"])
def test_whatever_makes_a_job_runnable_wakes_a_sleeper(start: Start, app: Wakeful, db: Session, how: str) -> None:
    holder = Queue(app)
    id = enqueue(db, "t", dedup_key="k" if how == "replaced" else None)
    if how == "resumed":
        call(db, "pause_queue", name="default")
    elif how in ("replaced", "hurried"):
        db.execute("update wakeful.job set state = 0, ready_at = null, run_at = wakeful.now() + '1 hour'")
    else:
        [held] = holder.claim("t")
        if how == "requeued":
            holder.mark_failed(held, "x", retry=False)
    waiting = start(task="t", wait=30)
    fall_asleep(app, db)
    match how:
        case "released":
            holder.release(held)
        case "retried":
            holder.mark_failed(held, "x", retry_in=0)
        case "resumed":
            call(db, "resume_queue", name="default")
        case "replaced":
            enqueue(db, "t", dedup_key="k", dedup="replace")
        case "hurried":
            holder.retry(id)
        case "requeued":
            id = holder.requeue(id)
    began = time.monotonic()
    assert [job.id for job in waiting.result(10)] == [id]
    assert time.monotonic() - began < 5
    holder.close()


def test_a_lease_that_lapses_wakes_a_sleeper(start: Start, app: Wakeful, db: Session) -> None:
    holder = Queue(app)
    id = enqueue(db)
    holder.claim("t", lease=1.5, renew=False)
    began = time.monotonic()
    assert [job.id for job in start(wait=30).result(15)] == [id]
    assert time.monotonic() - began < 8
    holder.close()


async def test_a_caller_that_is_cancelled_leaves_nothing_behind(queue: Queue, app: Wakeful, db: Session) -> None:
    waiting = asyncio.ensure_future(queue.aclaim("t", wait=30))
    await asyncio.to_thread(fall_asleep, app, db)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.to_thread(until, lambda: sleepers(db) == 0)
    await app.database.aclose()


async def test_a_job_taken_for_a_caller_that_was_cancelled_is_given_back(
    queue: Queue, app: Wakeful, db: Session
) -> None:
    id = enqueue(db)
    given_back = "select state = 'ready' and attempt = 0 and epoch = %s from wakeful.jobs where id = %s"
    for take in range(1, 6):
        claiming = asyncio.ensure_future(queue.aclaim("t"))
        await turns_until(lambda take=take: looks(app) >= take)  # type: ignore[misc]
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
        await turns_until(lambda take=take: bool(scalar(db, given_back, take, id)))  # type: ignore[misc]
    [job] = await queue.aclaim("t")
    assert job.attempt == 1
    await app.database.aclose()


async def test_the_bell_of_a_caller_that_has_gone_rings_for_another(queue: Queue, app: Wakeful, db: Session) -> None:
    waiting = [asyncio.ensure_future(queue.aclaim("t", wait=30)) for _ in range(3)]
    await asyncio.to_thread(fall_asleep, app, db, 3)
    # The loop is busy while the poke comes: the first of them is rung, and cancelled before it can look.
    enqueue(db)
    await asyncio.to_thread(lambda: None)
    time.sleep(0.2)
    waiting[0].cancel()
    done, _ = await asyncio.wait(waiting[1:], timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert done or waiting[0].done()
    got = [job for one in waiting if one.done() and not one.cancelled() for job in one.result()]
    assert len(got) == 1
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await app.database.aclose()


def test_an_idle_queue_asks_next_to_nothing(start: Start, app: Wakeful, db: Session) -> None:
    for _ in range(4):
        start(wait=30)
    steady = fall_asleep(app, db, 4)
    began = time.monotonic()
    while time.monotonic() - began < 1.5:
        time.sleep(0.05)
    assert looks(app) == steady
