"""A handler: what is known of a task's function when one of its jobs is run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import Any, Literal

from wakeful.payload import PayloadCodec
from wakeful.values.failing import NOTHING_SAID, Failing
from wakeful.values.retry import RetryPolicy

Place = Literal["loop", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Handler:
    """How to run a task's jobs. `timeout` None: as long as it takes; `lease` None: covered by the worker's.

    `failing` says what its exceptions mean.
    """

    task: str
    function: Callable[..., Any]
    codec: PayloadCodec
    place: Place
    retry: RetryPolicy
    timeout: timedelta | None = None
    lease: timedelta | None = None
    batch: int | None = None
    linger: timedelta = timedelta(0)
    log_fields: tuple[str, ...] = ()
    failing: Failing = NOTHING_SAID
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        """`seconds` is the timeout as attempts need it: thousands of times a second."""
        object.__setattr__(self, "seconds", inf if self.timeout is None else self.timeout.total_seconds())

    def fields_of(self, payload: str) -> dict[str, object] | None:
        """The payload's fields that are to be seen in log lines; None where there are none."""
        if not self.log_fields:
            return None
        try:
            told: dict[str, object] = json.loads(payload)
        except (ValueError, RecursionError):  # Not written by us: too deep, or a number too long to be read.
            return None
        return {name: told[name] for name in self.log_fields if name in told}

    @property
    def list_parameter(self) -> str:
        """For a batch: the parameter that takes the list of all jobs' arguments."""
        return next(iter(self.codec.signature.annotations))
