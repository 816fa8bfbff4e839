"""How a producer waits for room in a queue that is full."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import timedelta

LONGEST_PAUSE = 1.0


def pauses(patience: timedelta | None) -> Iterator[float | None]:
    """The seconds to wait before each further try, longer and longer; None when there is none, which is the last."""
    until = time.monotonic() + (0 if patience is None else patience.total_seconds())
    pause = 0.05
    while (left := until - time.monotonic()) > 0:
        yield min(left, pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.5, LONGEST_PAUSE)
    yield None
