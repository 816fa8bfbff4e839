"""One worker process: what signals, the tether and the limits make of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeful.edges.supervisor.tether import Tether

if TYPE_CHECKING:
    from wakeful.worker import Worker
    from wakeful.worker.summary import Summary

log = logging.getLogger("wakeful.supervisor")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Threads of handlers; idle ones end by themselves, within moments.
PREFIX = "wakeful"
SECONDS_TO_END = 0.5


@dataclass(frozen=True, slots=True)
class Worked:
    """How a process's work ended; `again` when SIGHUP asked for a fresh start."""

    summary: Summary
    again: bool


async def work(worker: Worker, tether: Tether | None) -> Worked:
    """Run the worker until a signal, a limit, or the end of the parent."""
    loop = asyncio.get_running_loop()
    again = False

    def start_again() -> None:
        nonlocal again
        again = True
        worker.stop()

    def parent_gone() -> None:
        log.warning("parent_gone: finishing what runs.", extra={"event": "parent_gone"})
        worker.stop()

    with_signals(loop, worker.stop, worker.stop if tether is not None else start_again)
    if tether is not None:
        tether.watch(loop, parent_gone)
    summary = await worker.arun(started=None if tether is None else lambda: tether.tell("ready"))
    return Worked(summary, again)


def with_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None], reload: Callable[[], None]) -> None:
    """SIGTERM and SIGINT stop, SIGHUP reloads; but a terminal that was closed also sends SIGHUP, and that stops."""
    had_terminal = os.isatty(sys.stderr.fileno())

    def hang_up() -> None:
        if had_terminal and not os.isatty(sys.stderr.fileno()):
            stop()
        else:
            reload()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, hang_up)


def leave(code: int) -> int:
    """The exit code; but with handlers left behind in threads, which Python would wait for, end here and now."""
    until = time.monotonic() + SECONDS_TO_END
    stuck = [thread for thread in threading.enumerate() if thread.name.startswith(PREFIX) and not thread.daemon]
    for thread in stuck:
        thread.join(max(0.0, until - time.monotonic()))
    stuck = [thread for thread in stuck if thread.is_alive()]
    if not stuck:
        return code
    log.warning(
        "threads_left: handlers that did not end are cut off.",
        extra={"event": "threads_left", "threads": len(stuck)},
    )
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
