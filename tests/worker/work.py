"""A worker in the test's own event loop, and ways to wait for what it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from tests.sessions import Session, query, scalar
from wakeful.app import Wakeful
from wakeful.wake.listener import Listener
from wakeful.worker import Worker
from wakeful.worker.ears import ListenerEars
from wakeful.worker.shift import Shift

# Long past any wake-up by poke or timer, on a busy machine too, and far before a pulse of LONG_POLL.
SOON_SECONDS = 60.0
LONG_POLL = 300
# Who sleeps for longer waits for nothing that it has begun: it looks again after a moment for what may be under way.
A_SLEEP_SECONDS = 0.3


@asynccontextmanager
async def working(app: Wakeful, **flags: Any) -> AsyncIterator[Worker]:
    """A worker that has gone to sleep, with a pulse so slow that nothing is found by it. Stopped at the end."""
    async with starting(app, **flags) as worker:
        await soon(lambda: sleeps(worker))
        yield worker


@asynccontextmanager
async def starting(app: Wakeful, **flags: Any) -> AsyncIterator[Worker]:
    """A worker that is being started. Stopped at the end, handlers that still run included."""
    worker = app.worker(**{"concurrency": 4, "poll_interval": LONG_POLL, **flags})
    running = asyncio.create_task(worker.arun())
    try:
        await soon(lambda: worker._shift is not None or running.done())
        yield worker
    finally:
        worker.stop()
        worker.stop()
        await running


def counts(worker: Worker) -> Mapping[str, int]:
    """What the worker has said to the database, by kind."""
    return dict(shift_of(worker).counts)


def shift_of(worker: Worker) -> Shift:
    """The inside of a worker that runs."""
    assert worker._shift is not None
    return worker._shift


def listener_of(worker: Worker) -> Listener | None:
    """The worker's listener, once it has subscribed; None before that, and for one that has none."""
    ears = shift_of(worker)._loop.ears
    return ears._listener if isinstance(ears, ListenerEars) and ears._listener.connected else None


def sleeps(worker: Worker) -> bool:
    """Whether the worker has looked, has heard itself, and waits for a poke or for something that is due later."""
    loop = shift_of(worker)._loop
    if listener_of(worker) is None or loop.ears.check_at is not None or loop.counts["pulses"] == 0:
        return False
    if loop.alarm._rung.is_set():
        return False
    wakes_at = loop.alarm.wakes_at
    return wakes_at is not None and wakes_at - asyncio.get_running_loop().time() > A_SLEEP_SECONDS


async def at_rest(worker: Worker, seconds: float = 0.3) -> None:
    """Return once the worker sleeps, and has said nothing for as long: no poke is late, and nothing polls."""
    await soon(lambda: sleeps(worker))
    since, said = time.monotonic(), counts(worker)
    deadline = since + SOON_SECONDS
    while time.monotonic() - since < seconds:
        await asyncio.sleep(0.02)
        if not listener_of(worker) or counts(worker) != said:
            since, said = time.monotonic(), counts(worker)
        assert time.monotonic() < deadline, f"the worker does not come to rest: {said}"


async def soon(condition: Callable[[], object], seconds: float = SOON_SECONDS) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.01)


async def heard(event: asyncio.Event, seconds: float = SOON_SECONDS) -> None:
    """Return once the event is set."""
    async with asyncio.timeout(seconds):
        await event.wait()


def state(db: Session, id: UUID | None) -> str:
    """The one state of a job."""
    return str(scalar(db, "select state from wakeful.jobs where id = %s", id))


def report(db: Session, id: UUID | None) -> dict[str, Any]:
    """All that is told of a job."""
    [row] = query(db, "select * from wakeful.jobs where id = %s", id)
    return row


async def comes_to(db: Session, id: UUID | None, wanted: str) -> dict[str, Any]:
    """Return once the job is in this state, with all that is told of it."""
    await soon(lambda: state(db, id) == wanted)
    return report(db, id)


async def all_over(db: Session, ids: Iterable[UUID | None], seconds: float = SOON_SECONDS) -> dict[str, int]:
    """Return once each of the jobs is in a final state, and in one only; how many are in each."""
    asked = [id for id in ids if id is not None]

    def left() -> int:
        return int(scalar(db, "select count(*) from wakeful.job where id = any (%s)", asked))

    await soon(lambda: left() == 0, seconds)
    return final_states(db, asked)


def final_states(db: Session, asked: list[UUID]) -> dict[str, int]:
    """How many of the jobs are in each state; a job that is missing, or told of twice, is an error."""
    rows = query(db, "select id, state from wakeful.jobs where id = any (%s)", asked)
    assert sorted(row["id"] for row in rows) == sorted(asked)
    told = [row["state"] for row in rows]
    return {name: told.count(name) for name in set(told)}
