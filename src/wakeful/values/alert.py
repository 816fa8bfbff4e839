"""An alert that has just fired or cleared, and what a run used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Alert:
    """`subject` is the task, queue or breaker it is about, empty for the whole; `fired` False: it is over."""

    rule: str
    subject: str
    number: float
    threshold: float
    fired: bool
    details: Mapping[str, Any] | None = None

    @property
    def sentence(self) -> str:
        """For people."""
        about = f" of {self.subject}" if self.subject else ""
        if not self.fired:
            return f"{self.rule}{about} is well again."
        return f"{self.rule}{about} is {self.number:g}, and {self.threshold:g} is the limit."


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """What one run of a tenant's job used."""

    tenant: str
    task: str
    seconds: float
    outcome: str
    job_id: UUID
    attempt: int
