"""A worker's presence in the fleet: its id, its lease, and the thread that beats when the loop cannot."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from wakeful.claim.lanes import Lanes
from wakeful.database.line import AsyncLine, Line
from wakeful.statements import fleet
from wakeful.tend.beat import BeatThread, Lease
from wakeful.values.identity import new_id


class BeatLine:
    """The beat thread's own connection."""

    def __init__(self, dsn: str, worker_id: UUID, lease: timedelta) -> None:
        self._line = Line(dsn, "wakeful beat")
        self._statement = fleet.beat(worker_id, lease)

    def beat(self) -> bool:
        """Renew the worker's lease; False when it has lapsed."""
        return self._line.run(self._statement)

    def close(self) -> None:
        """Hang up."""
        self._line.close()


class Presence:
    """Registered under an id that is new for each process, and after a lapse. `lost` is called from the thread.

    `hand_channel` is where jobs are handed to this worker, and nobody else is to know its name.
    """

    def __init__(
        self,
        dsn: str,
        line: AsyncLine,
        tasks: Sequence[str],
        lanes: Lanes,
        length: timedelta,
        lost: Callable[[], None],
        schedules: Sequence[str] = (),
    ) -> None:
        self._dsn = dsn
        self._line = line
        self._tasks = tasks
        self._lanes = lanes
        self._length = length
        self._lost = lost
        self._schedules = schedules
        self._thread: BeatThread | None = None
        self.worker_id = new_id()
        self.hand_channel = _secret_channel()
        self.lease = Lease(length)

    async def register(self) -> None:
        """Put the worker on the list, and begin to watch over its lease."""
        queues = None if self._lanes.every is not None else self._lanes.queues()[0]
        details = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "schedules": list(self._schedules)})
        name = f"{socket.gethostname()}:{os.getpid()}"
        # Counted from before the statement is sent: the server's count begins later.
        self.lease = Lease(self._length)
        await self._line.run(
            fleet.register(self.worker_id, name, queues, self._tasks, self._lanes.slots, self._length, details)
        )
        worker_id = self.worker_id
        self._thread = BeatThread(self.lease, lambda: BeatLine(self._dsn, worker_id, self._length), self._lost)
        self._thread.start()

    async def register_anew(self) -> None:
        """After a lapse: others may hold the old id's jobs, so there is a new one."""
        self.end_beat()
        self.worker_id = new_id()
        self.hand_channel = _secret_channel()
        await self.register()

    def end_beat(self) -> None:
        """Renew no more."""
        if self._thread is not None:
            self._thread.end()

    async def leave(self) -> None:
        """Go off the list; what is still held is released."""
        await self._line.run(fleet.leave(self.worker_id))


def _secret_channel() -> str:
    return f"{fleet.BROADCAST}_{secrets.token_hex(16)}"
