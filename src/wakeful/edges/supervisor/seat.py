"""A seat: one place among a supervisor's children, kept filled until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from wakeful.edges.supervisor.backoff import Backoff
from wakeful.edges.supervisor.child import Child, describe_end
from wakeful.edges.supervisor.plan import MISUSED, RECYCLED, Plan

log = logging.getLogger("wakeful.supervisor")


class Misused(Exception):
    """A child says that it cannot be run like this, and none ever could."""


class Seat:
    """Starts a child, and the next when it ends: at once if it was to end, later and later if it crashed.

    `plan` tells what to start; `proven` is set as soon as any child was ever ready; `crashed` is called after a crash.
    """

    def __init__(self, plan: Callable[[], Plan], proven: asyncio.Event, crashed: Callable[[], None]) -> None:
        self._plan = plan
        self._proven = proven
        self._crashed = crashed
        self._stopped = False
        # Rung when there is no more reason to wait before the next start.
        self._bell = asyncio.Event()
        self._successor: asyncio.Future[bool] | None = None
        self.backoff = Backoff()
        self.child: Child | None = None
        self.last_end = ""

    async def keep(self) -> None:
        """Return when it was told to stop and its child has ended. Raises Misused if no child was ever ready."""
        while not self._stopped:
            try:
                plan = self._plan()
                child = self.child = await Child.start(plan.command, plan.output)
            except OSError as error:
                await self._wait_after_crash(0.0, {"end": str(error)})
                continue
            log.info("process_started", extra={"event": "process_started", "child_pid": child.pid})
            self._pass_on_stop(child)
            await self._judge(child, await self._ended(child))

    async def replace(self) -> bool:
        """End the child and start the next; True once that is ready, False if it ends before or all is to stop."""
        self._successor = asyncio.get_running_loop().create_future()
        self._bell.set()
        if self.child is not None:
            self.child.stop(self._plan().patience_seconds)
        try:
            return await self._successor
        finally:
            self._successor = None

    def stop(self) -> None:
        """Fill the seat no more. The child finishes what it has; the second time it stops at once."""
        self._stopped = True
        self._bell.set()
        self._answer(False)
        if self.child is not None:
            self.child.stop(self._plan().patience_seconds)

    def _pass_on_stop(self, child: Child) -> None:
        """Stop a child that was just being started when the seat was told to stop."""
        if self._stopped:
            child.stop(self._plan().patience_seconds)

    async def _ended(self, child: Child) -> int:
        greeting = asyncio.create_task(self._greet(child))
        code = await child.ended()
        greeting.cancel()
        self.child = None
        return code

    async def _greet(self, child: Child) -> None:
        await child.ready.wait()
        self._proven.set()
        if not child.stopping:
            self._answer(True)

    def _answer(self, ready: bool) -> None:
        if self._successor is not None and not self._successor.done():
            self._successor.set_result(ready)

    async def _judge(self, child: Child, code: int) -> None:
        fields = {"child_pid": child.pid, "end": describe_end(code), "lived_seconds": round(child.lived, 1)}
        if child.stopping:
            log.info("process_ended", extra={"event": "process_ended", **fields})
        elif code == RECYCLED:
            self.backoff.calm()
            log.info("process_recycled", extra={"event": "process_recycled", **fields})
        elif code == MISUSED and not self._proven.is_set():
            raise Misused
        else:
            await self._wait_after_crash(child.lived, fields)

    async def _wait_after_crash(self, lived: float, fields: dict[str, object]) -> None:
        wait = self.backoff.crashed(lived)
        self.last_end = str(fields["end"])
        self._bell.clear()
        self._answer(False)
        self._crashed()
        log.error(
            "process_crashed: %s",
            "it is not started again." if self._stopped else f"starts again in {wait:.1f} s.",
            extra={"event": "process_crashed", **fields, "in_a_row": self.backoff.crashes},
        )
        await asyncio.wait([bell := asyncio.create_task(self._bell.wait())], timeout=wait)
        bell.cancel()
