"""What a worker is asked to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Handler = Literal["noop", "sleep", "sync", "hold"]
"""An async no-op, an async sleep of 5 ms, a plain function that does nothing, or one that never ends."""

SLEEP_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Load:
    """`slots` None: as many as the system does best with. `batch`: jobs a claim, where that can be set."""

    handler: Handler = "noop"
    slots: int | None = None
    batch: int | None = None
    environment: tuple[tuple[str, str], ...] = ()

    def to_arguments(self) -> dict[str, object]:
        """As the driver's `worker` verb takes it."""
        given = asdict(self)
        del given["environment"]
        return given
