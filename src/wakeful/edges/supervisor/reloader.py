"""One child that is started again whenever its files change."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from wakeful.edges.supervisor.child import Child, describe_end
from wakeful.edges.supervisor.watch import Watch

LOOK_EVERY = 0.6
# An editor, or a checkout, writes file after file: wait until it is done.
SETTLE = 0.2


class Reloader:
    """Runs `command`; a change ends the child gracefully and starts the next. Ended by itself, it waits for one."""

    def __init__(self, command: Sequence[str], folder: str, patience: float, say: Callable[[str], None]) -> None:
        self._command = command
        self._patience = patience
        self._say = say
        self._watch = Watch(folder)
        self._child: Child | None = None
        self._stopping = asyncio.Event()
        self._again = asyncio.Event()

    @property
    def watched(self) -> int:
        """How many files it looks at."""
        return len(self._watch)

    def stop(self) -> None:
        """End; the second call ends the child at once."""
        self._stopping.set()
        if self._child is not None:
            self._child.stop(self._patience)

    def restart(self) -> None:
        """Start the child again though nothing has changed."""
        self._again.set()

    async def run(self) -> None:
        """Return after `stop`, when the child has ended."""
        while not self._stopping.is_set():
            child = self._child = await Child.start(self._command)
            ended = asyncio.create_task(child.ended())
            await self._until_news(ended)
            if ended.done() and not self._stopping.is_set():
                self._say(f"The worker ended ({describe_end(ended.result())}); waiting for a change.")
                await self._until_news(None)
            elif not child.stopping:
                child.stop(self._patience)
            await ended
            self._child = None

    async def _until_news(self, ended: asyncio.Task[int] | None) -> None:
        """Return on a change, a call of `stop` or `restart`, or the child's end."""
        changed = asyncio.create_task(self._change())
        asked = [asyncio.create_task(event.wait()) for event in (self._stopping, self._again)]
        tasks = [changed, *asked, *([ended] if ended else [])]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self._again.clear()
        for task in (changed, *asked):
            task.cancel()

    async def _change(self) -> None:
        while not (changes := await self._looked(LOOK_EVERY)):
            pass
        while more := await self._looked(SETTLE):
            changes += more
        self._say(f"{describe_changes(changes)} changed: starting again.")

    async def _looked(self, after: float) -> list[str]:
        await asyncio.sleep(after)
        if self._child is not None:
            self._watch.follow(self._child.files)
        return await asyncio.to_thread(self._watch.changes)


def describe_changes(paths: Sequence[str]) -> str:
    """The first of them, and how many more."""
    names = list(dict.fromkeys(os.path.relpath(path) for path in paths))
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
