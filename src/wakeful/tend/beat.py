"""The beat: the worker's lease, renewed from a thread of its own when the loop does not get round to it.

The pulse renews the lease every twenty seconds, which costs an idle worker nothing extra. A handler that blocks
the loop keeps the pulse from going out; then this thread beats.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from wakeful.values.errors import WakefulError

log = logging.getLogger("wakeful.tend")

# Of a lease, the part that is left for handlers to end in.
SHARE_TO_END = 0.1


class Beater(Protocol):
    """A connection of the thread's own that renews the lease; False when it has lapsed."""

    def beat(self) -> bool: ...

    def close(self) -> None: ...


class Lease:
    """How long the worker's lease surely runs, on the monotonic clock: counted from before the renewal was sent."""

    def __init__(self, length: timedelta) -> None:
        self.length = length
        self._renewed = time.monotonic()
        self.lapsed = False

    def renewed(self, sent_at: float) -> None:
        """A renewal that was sent at `sent_at` was taken."""
        self._renewed = max(self._renewed, sent_at)

    @property
    def age(self) -> float:
        """Seconds since the last renewal."""
        return time.monotonic() - self._renewed

    @property
    def left(self) -> float:
        """Seconds for which the jobs are surely ours."""
        return 0.0 if self.lapsed else self.length.total_seconds() - self.age

    @property
    def left_to_work(self) -> float:
        """Seconds after which handlers must be stopped, to have ended before the lease does."""
        return self.left - SHARE_TO_END * self.length.total_seconds()


class BeatThread:
    """Renews the lease when two thirds of it are over, whatever the loop is doing."""

    def __init__(self, lease: Lease, open_beater: Callable[[], Beater], lost: Callable[[], None]) -> None:
        self._lease = lease
        self._open = open_beater
        self._lost = lost
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wakeful-beat", daemon=True)
        self._beater: Beater | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def end(self) -> None:
        """Stop; does not wait for a renewal that is under way."""
        self._ended.set()

    def _run(self) -> None:
        threshold = self._lease.length.total_seconds() * 0.72
        try:
            while not self._ended.wait(max(0.05, threshold - self._lease.age)):
                if self._lease.lapsed:
                    return
                if self._lease.age >= threshold:
                    self._beat()
        finally:
            if self._beater is not None:
                self._beater.close()

    def _beat(self) -> None:
        sent_at = time.monotonic()
        try:
            self._beater = self._beater or self._open()
            if self._beater.beat():
                self._lease.renewed(sent_at)
                return
            self._lease.lapsed = True
        except WakefulError as error:
            log.warning("beat_failed: %s", error, extra={"event": "beat_failed"})
            if self._beater is not None:
                self._beater.close()
                self._beater = None
            if self._lease.left_to_work > 0:
                self._ended.wait(min(1.0, self._lease.length.total_seconds() / 30))
                return
            # It cannot be renewed in time: others will take the jobs, so the handlers must stop first.
            self._lease.lapsed = True
        self._lost()
