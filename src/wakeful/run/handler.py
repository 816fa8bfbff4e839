"""A handler: what is known of a task's function when one of its jobs is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any, Literal

from wakeful.payload import PayloadCodec
from wakeful.values.retry import RetryPolicy

Place = Literal["loop", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Handler:
    """How to run a task's jobs. `timeout` None: as long as it takes."""

    task: str
    function: Callable[..., Any]
    codec: PayloadCodec
    place: Place
    retry: RetryPolicy
    timeout: timedelta | None = None
    batch: int | None = None
    linger: timedelta = timedelta(0)

    @property
    def list_parameter(self) -> str:
        """For a batch: the parameter that takes the list of all jobs' arguments."""
        return next(iter(self.codec.signature.annotations))

    @property
    def seconds(self) -> float:
        """How long an attempt may take."""
        return self.timeout.total_seconds() if self.timeout is not None else inf
