"""What an act needs: the shop's app, the workers, the clock, and the scene to write on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from wakeful.app import Wakeful
from wakeful.edges.demo.scene import Scene
from wakeful.edges.supervisor import Supervisor
from wakeful.statements.statement import Statement
from wakeful.values.errors import WakefulError
from wakeful.values.job import JobId

T = TypeVar("T")

LOOK_EVERY = 0.05


class Curtain(Exception):
    """The show is to end: acts leave where they wait, never in the middle of a statement."""


class Abandoned(Exception):
    """Nobody wants to see the end of it."""


class Show:
    """One performance of `seconds`; an endless one goes on after that until it is told to end."""

    def __init__(self, app: Wakeful, scene: Scene, seconds: float, *, endless: bool) -> None:
        self.app = app
        self.scene = scene
        self.seconds = seconds
        self.endless = endless
        self.supervisor: Supervisor
        self.supervising: asyncio.Task[int]
        self._curtain = asyncio.Event()
        self.abandoned = False
        # Jobs for a moment that may not be waited for.
        self.far_off: list[UUID] = []

    def end(self) -> None:
        """Let the acts leave."""
        self._curtain.set()

    def abandon(self) -> None:
        """Leave everything as it is, and clean up. By a flag, because a cancellation can get lost in a driver."""
        self.abandoned = True
        self.end()

    def check(self) -> None:
        """Raises Abandoned if it is."""
        if self.abandoned:
            raise Abandoned

    @property
    def ending(self) -> bool:
        """Whether the acts are to leave."""
        return self._curtain.is_set()

    async def pause(self, seconds: float) -> None:
        """Sleep; Curtain when the show is to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._curtain.wait()
        if self.ending:
            raise Curtain

    async def until(self, part: float) -> None:
        """Sleep until this part of the show's length is over."""
        await self.pause(self.seconds * part - self.scene.elapsed)

    async def run(self, statement: Statement[T]) -> T:
        """Ask the database."""
        return await self.app.database.arun(statement)

    async def wait_for(self, ask: Callable[[], Awaitable[T | None]]) -> tuple[T, float]:
        """Ask until there is an answer; it, and the seconds it took."""
        began = time.monotonic()
        while (answer := await ask()) is None:
            if self.supervising.done():
                self.supervising.result()
                raise WakefulError("The demo's workers have ended. Run `wakeful demo` again.")
            await self.pause(LOOK_EVERY)
        return answer, time.monotonic() - began

    def count(self, made: JobId | list[JobId | None] | None) -> None:
        """Keep account of what was enqueued."""
        ids = made if isinstance(made, list) else [made]
        assert None not in ids
        self.scene.enqueued += len(ids)
