"""The app of the workers under fire: every handler tells the history when it begins and when it is through.

Results name the epoch that made them, and effects too: a settlement by anyone but the holder shows.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import signal
import sys
import time
from typing import Any

from tests.worker.apps import main, tell
from wakeful.app import Wakeful
from wakeful.run.context import Context, SyncContext
from wakeful.values.outcome import Snooze
from wakeful.values.retry import Fixed

app = Wakeful()
SOON = Fixed(0.05)
# Where a worker may be told to die: so many of a hundred handlers do, between their effect and its settlement.
DEATHS_IN_A_HUNDRED = float(os.environ.get("CHAOS_DEATHS", "0"))
# Whether this process lives where memory is scarce.
CAGED = "CHAOS_CAGED" in os.environ


def may_die() -> None:
    """End this process as a kill would, if it is to be."""
    if random.uniform(0, 100) < DEATHS_IN_A_HUNDRED:
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="quick", retry=SOON, max_attempts=1000)
async def quick(ctx: Context) -> dict[str, int]:
    tell("start", ctx)
    await asyncio.sleep(0)
    tell("end", ctx)
    may_die()
    return {"epoch": ctx.epoch}


@app.task(name="nap", retry=SOON, max_attempts=1000)
async def nap() -> None:
    """Take a moment, and write nothing: what is measured is the queue, not this disk."""
    await asyncio.sleep(0.04)


@app.task(name="lasting", retry=SOON, max_attempts=1000)
async def lasting(ctx: Context, seconds: float = 0.2) -> dict[str, int]:
    tell("start", ctx)
    await asyncio.sleep(seconds)
    tell("end", ctx)
    return {"epoch": ctx.epoch}


@app.task(name="threaded", retry=SOON, max_attempts=1000)
def threaded(ctx: SyncContext) -> dict[str, int]:
    tell("start", ctx)
    time.sleep(0.01)
    tell("end", ctx)
    return {"epoch": ctx.epoch}


@app.task(name="effect", retry=SOON, max_attempts=1000)
async def effect(ctx: Context) -> None:
    """Write one row in the transaction that completes the job."""
    tell("start", ctx)
    async with ctx.transaction() as conn:
        await conn.execute("insert into public.effect (job_id, epoch) values (%s, %s)", [ctx.job.id, ctx.epoch])
        await asyncio.sleep(0.001)
        may_die()
    tell("end", ctx)
    may_die()


@app.task(name="flaky", retry=SOON, max_attempts=3)
async def flaky(ctx: Context) -> Any:
    """Sleep once, fail once, then succeed."""
    tell("start", ctx)
    if ctx.epoch == 1:
        tell("end", ctx)
        return Snooze(0.05)
    if ctx.attempt == 1:
        tell("end", ctx)
        raise RuntimeError("the first time it fails")
    tell("end", ctx)
    return {"epoch": ctx.epoch}


@app.task(name="doomed", retry=SOON, max_attempts=2)
async def doomed(ctx: Context) -> None:
    tell("start", ctx)
    tell("end", ctx)
    raise RuntimeError("it always fails")


@app.task(name="keyed", retry=SOON, max_attempts=1000)
async def keyed(ctx: Context) -> dict[str, int]:
    tell("start", ctx)
    await asyncio.sleep(0.02)
    tell("end", ctx)
    return {"epoch": ctx.epoch}


@app.task(name="limited", retry=SOON, max_attempts=1000, concurrency=2)
async def limited(ctx: Context) -> dict[str, int]:
    """At most two run at once, over all workers."""
    tell("start", ctx)
    await asyncio.sleep(0.03)
    tell("end", ctx)
    return {"epoch": ctx.epoch}


def take_all_memory() -> None:
    """Take more and more, until the kernel says no; where nothing bounds this process, stop before it is felt."""
    taken = bytearray()
    while CAGED or len(taken) < 1 << 28:
        taken += b"\1" * (1 << 24)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="crashing", max_attempts=20)
async def crashing(ctx: Context, how: str) -> None:
    """Take the whole process down, a moment after it has begun."""
    tell("start", ctx)
    await asyncio.sleep(0.2)
    match how:
        case "abort":
            os.abort()
        case "segfault":
            ctypes.string_at(0)
        case "memory":
            take_all_memory()


@app.task(name="holding_the_gil", retry=SOON, max_attempts=1000)
async def holding_the_gil(ctx: Context, seconds: float) -> dict[str, int]:
    """Let no other thread of this process run, as C code may that never lets go. Only the first time."""
    tell("start", ctx)
    if ctx.epoch == 1:
        sys.setswitchinterval(1000)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        sys.setswitchinterval(0.005)
    tell("end", ctx)
    return {"epoch": ctx.epoch}


@app.schedule(every=1, name="tick", misfire="all", cap=1000)
async def tick() -> None:
    """Make one job a second, whoever lives."""


if __name__ == "__main__":
    main(app)
