"""The job that this code runs for, as far as what it enqueues and logs needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, Protocol
from uuid import UUID


class CurrentJob(Protocol):
    """What a child takes from the job that enqueues it; `epoch` is the number of the claim under which it runs."""

    @property
    def id(self) -> UUID: ...

    @property
    def correlation_id(self) -> UUID: ...

    @property
    def epoch(self) -> int: ...


current_job: Final[ContextVar[CurrentJob | None]] = ContextVar("wakeful_current_job", default=None)
"""Set around a handler; None everywhere else. Threads started by a handler do not inherit it."""

current_fields: Final[ContextVar[Mapping[str, object] | None]] = ContextVar("wakeful_current_fields", default=None)
"""The payload's fields that the running job's task wants to see in log lines."""
