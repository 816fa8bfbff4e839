"""All measurements, one after the other, with a progress bar where somebody watches."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from wakeful.database.connect import connect
from wakeful.edges.bench.measure import STEPS, Finding, Subject
from wakeful.edges.bench.throwaway import throwaway


async def run(dsn: str, seconds: float, jobs: int) -> tuple[list[Finding], str]:
    """The findings, and the server's version. The database is dropped also when this is interrupted."""
    findings: list[Finding] = []
    with ExitStack() as stack:
        stack.enter_context(_ended_by_sigterm())
        progress = stack.enter_context(_progress())
        bar = progress.add_task("database", total=len(STEPS) + 1)
        address = await asyncio.to_thread(stack.enter_context, throwaway(dsn))
        with connect(address) as conn:
            server = (conn.info.parameter_status("server_version") or "").split()[0]
        subject = Subject(address, seconds, jobs)
        try:
            for name, step in STEPS:
                progress.update(bar, advance=1, description=name)
                findings += await step(subject)
            progress.update(bar, advance=1, description="done")
        finally:
            await subject.app.aclose()
    return findings, server


@contextmanager
def _progress() -> Iterator[Progress]:
    """On stderr: stdout is for the answer."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM cancels the measurement, so that what was made is cleaned up."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
