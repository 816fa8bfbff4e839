"""A few connections for many callers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

C = TypeVar("C")
R = TypeVar("R")


class Shared(Generic[C]):
    """Hands out what it was given, one caller each; who finds none waits for one."""

    def __init__(self, connections: Iterable[C]) -> None:
        self.all = list(connections)
        self._free: asyncio.LifoQueue[C] = asyncio.LifoQueue()
        for connection in self.all:
            self._free.put_nowait(connection)

    async def use(self, act: Callable[[C], Awaitable[R]]) -> R:
        """Act on one of them."""
        connection = await self._free.get()
        try:
            return await act(connection)
        finally:
            self._free.put_nowait(connection)
