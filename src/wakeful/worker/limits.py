"""When a process has worked enough: after so many jobs, or at such a size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

Limit = Literal["max_jobs", "max_rss"]

_STATM = Path("/proc/self/statm")
_MIB = 1024 * 1024
# Reading the size costs a system call or three: this often is soon enough for something that grows slowly.
LOOK_EVERY = 1.0


def resident_bytes() -> int:
    """How much memory this process holds; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Limits:
    """`max_jobs` counts attempts that ended, `max_rss` is in MiB; None: no limit."""

    def __init__(
        self,
        max_jobs: int | None,
        max_rss: int | None,
        size: Callable[[], int] = resident_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_jobs = max_jobs
        self._max_bytes = None if max_rss is None else max_rss * _MIB
        self._size = size
        self._clock = clock
        self._look_at = 0.0

    def reached(self, processed: int) -> Limit | None:
        """The limit that is reached, if one is."""
        if self._max_jobs is not None and processed >= self._max_jobs:
            return "max_jobs"
        # One that is too large before it has run anything would be so again, and nothing would ever run.
        if self._max_bytes is not None and processed and (now := self._clock()) >= self._look_at:
            self._look_at = now + LOOK_EVERY
            if self._size() >= self._max_bytes:
                return "max_rss"
        return None
