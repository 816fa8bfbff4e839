"""The watch: a thread that listens for those who wait, and sends one of them to look when there is a reason.

It runs while somebody waits, and a little longer. Sync and async callers are served by the same one.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final
from uuid import UUID

from wakeful.queue.hearing import Ear, Hearing
from wakeful.queue.room import Room
from wakeful.statements.loops import canary, wake
from wakeful.statements.statement import Statement
from wakeful.values.errors import WakefulError
from wakeful.values.wakeup import Look, Notice, Poke

log = logging.getLogger("wakeful.queue")

POLL: Final = 20.0
POLL_WHEN_DEAF: Final = 2.0
LINGER: Final = 30.0
PAUSE_AFTER_A_FAULT: Final = 1.0


class Watch:
    """The thread, started by `attend` and ended by idleness or `close`.

    `open_ear` subscribes to this worker's channels; None: nobody is ever poked, and polls do it all. `run`
    runs a statement on another connection.
    """

    def __init__(
        self, worker_id: UUID, open_ear: Callable[[], Ear] | None, run: Callable[[Statement[None]], None]
    ) -> None:
        self.worker_id = worker_id
        self.room = Room(self._interrupt)
        self.closed = False
        self._open_ear = open_ear
        self._run = run
        self._lock = threading.Lock()
        self._hearing: Hearing | None = None
        self._thread: threading.Thread | None = None

    @property
    def poll(self) -> float:
        """Seconds after which a sleeper looks without a reason; spread, so that no two do in step."""
        hearing = self._hearing
        return (POLL if hearing is not None and hearing.hears else POLL_WHEN_DEAF) * random.uniform(0.9, 1.0)

    def attend(self) -> Future[None]:
        """See to it that the thread runs; the answer is done once it listens, or has tried."""
        with self._lock:
            if self._hearing is None:
                self._hearing = Hearing(self._open_ear, self._call, self._heard, self.room.look_everywhere)
                self._thread = threading.Thread(
                    target=self._watch, args=(self._hearing,), name="wakeful-queue-watch", daemon=True
                )
                self._thread.start()
            return self._hearing.when_ready()

    def close(self) -> None:
        """End the thread and wait for it; those who wait are sent away with nothing."""
        with self._lock:
            self.closed, thread = True, self._thread
        self.room.dismiss()
        self._interrupt()
        if thread is not None:
            thread.join()

    def _watch(self, hearing: Hearing) -> None:
        idle_since = time.monotonic()
        try:
            while True:
                try:
                    if not self.room.is_empty():
                        idle_since = time.monotonic()
                    if self._is_over(idle_since):
                        return
                    hearing.attend()
                    self._take_back()
                    end = idle_since + LINGER if self.room.is_empty() else math.inf
                    hearing.wait(min(self.room.attend(), end))
                except Exception:
                    # A fault of our own must not leave callers asleep for good: it is told, and we go on.
                    log.exception("watch_failed", extra={"event": "watch_failed"})
                    time.sleep(PAUSE_AFTER_A_FAULT)
        finally:
            hearing.close()
            self._take_back()

    def _is_over(self, idle_since: float) -> bool:
        with self._lock:
            # Who waits has entered the room before it asks for the thread, so nobody is left without one.
            over = self.closed or (self.room.is_empty() and time.monotonic() - idle_since >= LINGER)
            if over:
                self._hearing = self._thread = None
            return over

    def _take_back(self) -> None:
        if self.room.sleeps_for_nobody():
            try:
                self._run(wake(self.worker_id))
            except WakefulError as error:
                log.debug("the declaration was not taken back, and lapses by itself: %s", error)
            self.room.taken_back()

    def _call(self, number: int) -> None:
        self._run(canary(self.worker_id, number))

    def _heard(self, notice: Notice) -> None:
        match notice:
            case Poke(queue, seconds):
                self.room.poked(queue, seconds)
            case Look():
                self.room.look_everywhere()

    def _interrupt(self) -> None:
        hearing = self._hearing
        if hearing is not None:
            hearing.interrupt()
