"""Ends that do not wait for what will not end: a handler that ignores its cancellation, a server that is frozen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger("wakeful.worker")

SECONDS_TO_END = 1.0


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (the extra `fast`), else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_to_end(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, but tasks that will not be cancelled are left behind."""
    loop = new_loop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(_end_the_rest())
        asyncio.set_event_loop(None)
        loop.close()


async def answered(call: Coroutine[Any, Any, object], seconds: float) -> bool:
    """Whether the call came to its end in time. Raises what it raises; one that takes longer is left to itself."""
    task = asyncio.create_task(call)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if task.done():
        task.result()
        return True
    # Nobody asks it for its result any more.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return False


async def _end_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    left = (await asyncio.wait(rest, timeout=SECONDS_TO_END))[1] if rest else ()
    if left:
        log.warning("tasks_left: %d would not end.", len(left), extra={"event": "tasks_left"})
    await asyncio.get_running_loop().shutdown_asyncgens()
