"""One worker process: what signals, the tether and the limits make of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeful.edges.supervisor.tether import Tether

if TYPE_CHECKING:
    from wakeful.worker import Worker
    from wakeful.worker.summary import Summary

log = logging.getLogger("wakeful.supervisor")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Worked:
    """How a process's work ended; `again` when SIGHUP asked for a fresh start."""

    summary: Summary
    again: bool


async def work(worker: Worker, tether: Tether | None) -> Worked:
    """Run the worker until a signal, a limit, or the end of the parent."""
    loop = asyncio.get_running_loop()
    again = stopping = False

    def start_again() -> None:
        nonlocal again, stopping
        # A second stop would interrupt what runs, and one that was told to end does not start again.
        if not stopping:
            again = stopping = True
            worker.stop()

    def stop() -> None:
        nonlocal again, stopping
        if again:
            # It is stopping already, and does not start again after all.
            again = False
        else:
            stopping = True
            worker.stop()

    def parent_gone() -> None:
        log.warning("parent_gone: finishing what runs.", extra={"event": "parent_gone"})
        worker.stop()

    with_signals(loop, stop, worker.stop if tether is not None else start_again)
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
