"""The app of the worker processes that tests start, stop and kill: handlers tell a journal what they do.

Run as a program it works until it is told to stop: `python -m tests.worker.apps '{"lease": 2}'`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from wakeful.app import Wakeful
from wakeful.run.context import Context, SyncContext
from wakeful.values.retry import Fixed

app = Wakeful()


def tell(event: str, ctx: Context | SyncContext, **facts: object) -> None:
    """Write a line that is there even if this process is killed in the next moment."""
    job = {"job": str(ctx.job.id), "attempt": ctx.attempt, "epoch": ctx.epoch, "pid": os.getpid()}
    append(os.environ["JOURNAL"], {"event": event, **job, "at": time.time(), **facts})


def append(path: str | Path, *lines: Mapping[str, object]) -> None:
    """Write lines that outlive this process, and the machine."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, "".join(json.dumps(line) + "\n" for line in lines).encode())
        os.fsync(file)
    finally:
        os.close(file)


@app.task(name="quick")
async def quick(ctx: Context) -> None:
    tell("start", ctx)


@app.task(name="in_thread")
def in_thread(ctx: SyncContext) -> None:
    tell("start", ctx)


@app.task(name="effect", retry=Fixed(0.05), max_attempts=1000)
async def effect(ctx: Context) -> None:
    """Write one row in the transaction that completes the job."""
    tell("start", ctx)
    async with ctx.transaction() as conn:
        await conn.execute("insert into public.effect (job_id) values (%s)", [ctx.job.id])
        await asyncio.sleep(0.001)


@app.task(name="lasts", retry=Fixed(0.05), max_attempts=1000)
async def lasts(ctx: Context, seconds: float) -> None:
    """Take some time, on the loop, and then be done."""
    tell("start", ctx)
    await asyncio.sleep(seconds)
    tell("end", ctx)


@app.task(name="waits")
async def waits(ctx: Context, path: str) -> int:
    """Go on until a file is there; tell when asked to end before that."""
    tell("start", ctx)
    try:
        while not Path(path).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        tell("told", ctx, cancelled=ctx.cancelled)
        raise
    tell("end", ctx)
    return ctx.epoch


@app.task(name="waits_in_thread")
def waits_in_thread(ctx: SyncContext, path: str) -> int:
    """The same in a thread, which minds what it is told."""
    tell("start", ctx)
    while not Path(path).exists():
        if ctx.wait(0.01):
            tell("told", ctx, cancelled=ctx.cancelled)
            raise RuntimeError("told to end")
    tell("end", ctx)
    return ctx.epoch


@app.task(name="ignores")
async def ignores(ctx: Context) -> None:
    """Go on for ever, whatever it is told."""
    tell("start", ctx)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            tell("told", ctx, cancelled=ctx.cancelled)


@app.task(name="ignores_in_thread")
def ignores_in_thread(ctx: SyncContext) -> None:
    """The same in a thread."""
    tell("start", ctx)
    while True:
        time.sleep(0.1)


@app.task(name="blocks")
async def blocks(ctx: Context, seconds: float) -> int:
    """Hold up the event loop, though not the other threads."""
    tell("start", ctx)
    time.sleep(seconds)
    tell("end", ctx)
    return ctx.epoch


@app.task(name="holds_the_gil")
async def holds_the_gil(ctx: Context, seconds: float) -> int:
    """Let no other thread of this process run, as C code may that never lets go. Only the first time."""
    tell("start", ctx)
    if ctx.epoch == 1:
        sys.setswitchinterval(1000)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        sys.setswitchinterval(0.005)
    tell("end", ctx)
    return ctx.epoch


@app.task(name="aborts", max_attempts=20)
async def aborts(ctx: Context) -> None:
    """Take the whole process down, a moment after it has begun."""
    tell("start", ctx)
    await asyncio.sleep(0.2)
    os.abort()


def main(app: Wakeful = app) -> None:
    """Work, by the settings that are given as JSON."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    summary = app.worker(**json.loads(sys.argv[1])).run()
    print(json.dumps({"processed": summary.processed, "succeeded": summary.succeeded, "failed": summary.failed}))


if __name__ == "__main__":
    main()
