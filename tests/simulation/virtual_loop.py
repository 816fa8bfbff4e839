"""An event loop whose time is a number: it jumps to the next timer as soon as nothing else can be done."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(AssertionError):
    """Everything waits for something that will never come."""


class JumpingSelector(selectors.DefaultSelector):
    """Never waits: asked to, it moves the clock on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is there now; nothing, and later, when nothing is."""
        if ready := super().select(0):
            return ready
        if timeout is None:
            raise Stuck("nothing is left that could ever happen")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs an hour of sleeping in a moment, the same way each time."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)
        # Timers that lie closer than this are run together, which real clocks need and this one must not have.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._jumping.now

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        """Nobody looks at a log here: what nobody awaited is an error of the run."""
        raise AssertionError(str(context))


def run_virtually(main: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    """Run to the end, and leave nothing behind."""
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        if rest:
            loop.run_until_complete(asyncio.wait(rest, timeout=10))
        asyncio.set_event_loop(None)
        loop.close()
