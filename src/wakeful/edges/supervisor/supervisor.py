"""All seats together: filled one after the other, replaced one after the other, ended at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from wakeful.edges.supervisor.backoff import GIVE_UP_AFTER
from wakeful.edges.supervisor.plan import MISUSED, Plan
from wakeful.edges.supervisor.seat import Misused, Seat
from wakeful.values.errors import WakefulError

log = logging.getLogger("wakeful.supervisor")


class Supervisor:
    """Keeps `processes` children alive until `stop`. `plan` is asked at the start, and again by each `reload`."""

    def __init__(self, plan: Callable[[], Plan]) -> None:
        self._read_plan = plan
        self._plan = plan()
        self._seats: list[Seat] = []
        self._keeping: set[asyncio.Task[None]] = set()
        self._ended: asyncio.Queue[asyncio.Task[None]] = asyncio.Queue()
        self._proven = asyncio.Event()
        self._stopping = False
        self._reloading: asyncio.Task[None] | None = None
        self._gave_up = ""

    @property
    def pids(self) -> list[int | None]:
        """The children's numbers, seat by seat; None for one that has ended and is not followed yet."""
        return [seat.child.pid if seat.child is not None else None for seat in self._seats]

    async def run(self) -> int:
        """Work until `stop`: 0. 2 when children cannot be run like this; an error when none can be kept alive."""
        filling = asyncio.create_task(self._fill())
        code = 0
        self._add_seat()
        while self._keeping:
            task = await self._ended.get()
            self._keeping.discard(task)
            if task.exception() is not None:
                self.stop()
            if isinstance(task.exception(), Misused):
                code = MISUSED
            else:
                task.result()
        filling.cancel()
        if self._gave_up:
            raise WakefulError(self._gave_up)
        return code

    def stop(self) -> None:
        """End all children, each as SIGTERM does; the second call ends them at once."""
        self._stopping = True
        for seat in self._seats:
            seat.stop()

    def reload(self) -> None:
        """Read the plan again and replace all children, one after the other, each once the one before is ready."""
        if not self._stopping and (self._reloading is None or self._reloading.done()):
            self._reloading = asyncio.create_task(self._reload())

    def _add_seat(self) -> None:
        seat = Seat(lambda: self._plan, self._proven, self._mind_hopelessness)
        self._seats.append(seat)
        task = asyncio.create_task(seat.keep())
        task.add_done_callback(self._ended.put_nowait)
        self._keeping.add(task)

    def _add_seats(self) -> None:
        while len(self._seats) < self._plan.processes and not self._stopping:
            self._add_seat()

    async def _fill(self) -> None:
        """The first child shows that there is something to run; the others follow."""
        await self._proven.wait()
        self._add_seats()

    async def _reload(self) -> None:
        try:
            self._plan = self._read_plan()
        except WakefulError as error:
            log.error("reload_refused: %s", error, extra={"event": "reload_refused"})
            return
        log.info("reload_started", extra={"event": "reload_started", "processes": self._plan.processes})
        kept, left = self._seats[: self._plan.processes], self._seats[self._plan.processes :]
        self._seats = kept
        for seat in left:
            seat.stop()
        for seat in kept:
            if not await seat.replace():
                log.error(
                    "reload_halted: a new process did not get ready; those not replaced yet go on.",
                    extra={"event": "reload_halted"},
                )
                return
        self._add_seats()
        log.info("reload_done", extra={"event": "reload_done", "pids": self.pids})

    def _mind_hopelessness(self) -> None:
        if all(seat.backoff.hopeless for seat in self._seats) and not self._stopping:
            self._gave_up = (
                f"No worker process stays alive: each crashed {GIVE_UP_AFTER} times in a row, the last with "
                f"{self._seats[-1].last_end}. Read above what they said, and start again once that is put right."
            )
            self.stop()
