"""Where handlers and producers leave their traces: a file that all processes of a measurement map into memory.

Times are CLOCK_MONOTONIC in nanoseconds, which all processes of one machine share, Node's included.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns

CAPACITY = 1 << 20
"""Jobs with a place in the file; a higher number shares the place of its remainder."""

_BYTES = CAPACITY * (8 + 8 + 1)


class Probe:
    """`sent` and `started` by job number, and how often each was run."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path or os.environ["BENCH_PROBE"])
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _BYTES)
        whole = memoryview(self._map)
        self.sent = whole[: CAPACITY * 8].cast("q")
        self.started = whole[CAPACITY * 8 : CAPACITY * 16].cast("q")
        self.runs = whole[CAPACITY * 16 :]

    def start(self, number: int) -> None:
        """Called by a handler, first thing."""
        place = number % CAPACITY
        self.started[place] = monotonic_ns()
        self.runs[place] = min(self.runs[place] + 1, 255)

    def send(self, number: int) -> None:
        """Called by a producer, just before it enqueues."""
        self.sent[number % CAPACITY] = monotonic_ns()

    def missing(self, jobs: int) -> int:
        """How many of the first `jobs` have not been run."""
        return self._map[CAPACITY * 16 : CAPACITY * 16 + jobs].count(0)

    def doubled(self, jobs: int) -> int:
        """How many of the first `jobs` were run more than once."""
        return jobs - self.missing(jobs) - self._map[CAPACITY * 16 : CAPACITY * 16 + jobs].count(1)

    def span(self, jobs: int) -> tuple[int, int]:
        """The first and the last start among the first `jobs`; zeros when none has started."""
        times = [time for time in self.started[:jobs] if time]
        return (min(times), max(times)) if times else (0, 0)

    def waits(self, jobs: int) -> list[float]:
        """Milliseconds from sending to start, of those of the first `jobs` that did start."""
        pairs = zip(self.sent[:jobs], self.started[:jobs], strict=True)
        return [(started - sent) / 1e6 for sent, started in pairs if sent and started]

    def clear(self) -> None:
        """Forget everything."""
        self._map[:] = bytes(_BYTES)


@contextmanager
def new_probe(path: Path) -> Iterator[Probe]:
    """A blank probe, removed at the end."""
    with path.open("wb") as file:
        file.truncate(_BYTES)
    try:
        yield Probe(path)
    finally:
        path.unlink()
