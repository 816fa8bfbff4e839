"""Room for so many threads at a time: who has waited longest is next."""

from __future__ import annotations

import threading
from collections import deque


class Room:
    """A semaphore that is fair. The standard one lets who has just left in again before who was waiting is awake."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._line: deque[threading.Lock] = deque()
        self._lock = threading.Lock()

    def acquire(self, timeout: float) -> bool:
        """Whether there was room within so many seconds."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._line.append(turn)
        try:
            came = turn.acquire(timeout=timeout)
        except BaseException:  # Interrupted: if its turn came in this very moment, the next one's has.
            if not self._withdrawn(turn):
                self.release()
            raise
        return came or not self._withdrawn(turn)

    def release(self) -> None:
        """Leave it to the next in line, if there is one."""
        with self._lock:
            if self._line:
                self._line.popleft().release()
            else:
                self._free += 1

    def _withdrawn(self, turn: threading.Lock) -> bool:
        with self._lock:
            try:
                self._line.remove(turn)
            except ValueError:
                return False
            return True
