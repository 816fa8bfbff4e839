"""A worker beside a web server, in its process and on its event loop: enough for a small deployment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from wakeful.app import Wakeful
from wakeful.worker import Worker
from wakeful.worker.summary import Summary

log = logging.getLogger("wakeful.web")


@asynccontextmanager
async def working(app: Wakeful, **flags: Any) -> AsyncIterator[Worker]:
    """A worker that has started when the block begins, and has finished or given back its jobs when it ends.

    What keeps it from starting is raised. It leaves signals to the server.
    """
    worker, started = app.worker(**flags), asyncio.Event()
    running = asyncio.create_task(worker.arun(started=started.set))
    waiting = asyncio.create_task(started.wait())
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        running.add_done_callback(_tell)
        yield worker
    finally:
        waiting.cancel()
        worker.stop()
        try:
            await running
        finally:
            await app.aclose()


def _tell(running: asyncio.Task[Summary]) -> None:
    """Nobody looks at the task while the server serves."""
    if not running.cancelled() and (error := running.exception()) is not None:
        log.error("worker_failed", exc_info=error, extra={"event": "worker_failed"})
