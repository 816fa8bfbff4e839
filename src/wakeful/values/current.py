"""The job that this code runs for, as far as what it enqueues needs to know."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple
from uuid import UUID


class CurrentJob(NamedTuple):
    """What a child takes from the job that enqueues it."""

    id: UUID
    correlation_id: UUID


current_job: Final[ContextVar[CurrentJob | None]] = ContextVar("wakeful_current_job", default=None)
"""Set around a handler; None everywhere else. Threads started by a handler do not inherit it."""
