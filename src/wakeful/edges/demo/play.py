"""The performance: set up, play all acts at once, wait for the last job, add up, clean up."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from wakeful.edges.demo import gauge
from wakeful.edges.demo.acts import STORY, Act, cancelled
from wakeful.edges.demo.boot import Boot
from wakeful.edges.demo.gauge import Books
from wakeful.edges.demo.scene import Line
from wakeful.edges.demo.shop import LANES
from wakeful.edges.demo.show import Curtain, Show
from wakeful.edges.demo.stage import Stage, stage
from wakeful.edges.supervisor import Plan, Supervisor
from wakeful.edges.supervisor.plan import wakeful_command
from wakeful.values.errors import WakefulError

T = TypeVar("T")

# Short, so that a killed worker's jobs are rescued while somebody watches.
LEASE_SECONDS = 2
SAMPLE_EVERY = 0.25
SECONDS_TO_FINISH = 60
A_DAY = 86_400.0


async def play(show: Show, dsn: str | None) -> Books:
    """Play it all, and give back the books. Whatever happens, nothing is left behind."""
    boot = Boot(show.scene)
    async with aside(stage(dsn, boot.step)) as where:
        show.scene.version = where.version
        boot.step("workers")
        database = replace(show.app.settings.database, dsn=where.dsn, notify=True)
        show.app.settings = replace(show.app.settings, database=database)
        async with supervised(show, where):
            try:
                return await perform(show, boot)
            finally:
                show.scene.log = where.log.read_text()
                await show.app.aclose()


async def perform(show: Show, boot: Boot) -> Books:
    """Everything between the first worker and the last job."""
    over = asyncio.Event()
    watching = asyncio.create_task(watch(show, over))
    acts: dict[asyncio.Task[None], Act] = {}
    try:
        with suppress(Curtain):
            await show.wait_for(lambda: all_there(show))
        show.check()
        boot.done()
        show.scene.footer = "Ctrl-C ends it, and adds up"
        acts = {asyncio.create_task(perform_act(show, act, show.scene.line(act.title))): act for act in STORY}
        with suppress(Curtain):
            await show.until(1.0)
            await asyncio.wait([task for task, act in acts.items() if not act.goes_on], timeout=SECONDS_TO_FINISH)
            if show.endless:
                await show.pause(A_DAY)
        show.scene.footer = "the last jobs finish"
        show.end()
        await asyncio.gather(*acts)
        show.check()
        await show.run(cancelled(show.far_off))
        return await finish(show)
    finally:
        over.set()
        show.end()
        await asyncio.gather(watching, *acts, return_exceptions=True)


async def perform_act(show: Show, act: Act, line: Line) -> None:
    """One act; the curtain may fall while it waits, and then its line is left as one that did not happen."""
    try:
        await act.play(show, line)
    except Curtain:
        line.state = "ahead"


async def finish(show: Show) -> Books:
    """Wait for the last job, and count."""
    books = await show.run(gauge.books())
    for _ in range(SECONDS_TO_FINISH * 10):
        if not books.live:
            break
        await asyncio.sleep(0.1)
        show.check()
        books = await show.run(gauge.books())
    show.scene.counts = await show.run(gauge.counts())
    return books


async def all_there(show: Show) -> bool | None:
    """Whether each process has registered."""
    pids = {worker.pid for worker in show.scene.workers}
    return (len(show.scene.pids) == processes() and pids.issuperset(show.scene.pids)) or None


async def watch(show: Show, over: asyncio.Event) -> None:
    """Keep the figures of the scene up to date until it is over."""
    scene, sampled = show.scene, time.monotonic()
    while not over.is_set():
        before, scene.pids = scene.counts.completed, show.supervisor.pids
        scene.counts, scene.workers = await show.run(gauge.counts()), await show.run(gauge.workers())
        now = time.monotonic()
        scene.forget_killed()
        if scene.began is not None:
            scene.rates.append((scene.counts.completed - before) / (now - sampled))
            scene.best_rate = max(scene.best_rate, scene.rate)
        sampled = now
        with suppress(TimeoutError):
            async with asyncio.timeout(SAMPLE_EVERY):
                await over.wait()


def processes() -> int:
    """Two, or three where there are cores for them."""
    return 2 if (os.cpu_count() or 1) <= 2 else 3


@asynccontextmanager
async def supervised(show: Show, where: Stage) -> AsyncIterator[None]:
    """`wakeful worker` on the shop's app while the block runs; gone after it, at once if it failed."""
    flags = {"dsn": where.dsn, "queues": LANES, "concurrency": 16, "lease": LEASE_SECONDS, "notify": True}
    command = wakeful_command("worker", ["wakeful.edges.demo.shop:app"], {**flags, "log_format": "text"})
    with where.log.open("ab") as log:
        plan = Plan(command, processes(), 5.0, log.fileno())
        show.supervisor = Supervisor(lambda: plan)
        show.supervising = asyncio.create_task(show.supervisor.run())
        try:
            yield
        except BaseException:  # whatever it is, nobody waits for the jobs any more
            show.supervisor.stop()
            raise
        finally:
            show.supervisor.stop()
            await asyncio.wait([show.supervising])


@asynccontextmanager
async def aside(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """A manager that blocks, in a thread. What it has begun it undoes, also if nobody waits for it any more."""
    entering = asyncio.ensure_future(asyncio.to_thread(manager.__enter__))
    try:
        yield await asyncio.shield(entering)
    finally:
        with suppress(WakefulError):
            await entering
            await asyncio.to_thread(manager.__exit__, None, None, None)
