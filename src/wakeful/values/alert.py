"""An alert that has just fired or cleared, and what a run used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from wakeful.values.wording import in_words


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
        return self._told() if self.fired else f"Over: {self._trouble()}."

    def _told(self) -> str:
        number, limit, subject = self.number, self.threshold, self.subject
        match self.rule:
            case "depth":
                return f"{number:,.0f} jobs of {subject} are ready, more than {limit:,.0f}."
            case "age":
                waited = in_words(number)
                return f"The oldest ready job of {subject} has waited for {waited}, longer than {in_words(limit)}."
            case "failure_rate":
                return f"{number:.0%} of the runs of {subject} failed, more than {limit:.0%}."
            case "dead_letters":
                letters = "1 dead letter is" if number == 1 else f"{number:,.0f} dead letters are"
                return f"{letters} unseen, more than {limit:,.0f}."
            case "no_worker":
                return f"No worker alive serves queue {subject}, whose jobs have waited for {in_words(number)}."
            case "breaker":
                return f"Breaker {subject} is open: its jobs wait."
            case "snapshot":
                return f"A transaction has been open for {in_words(number)}: vacuum can remove nothing that died since."
        return f"{self._trouble()} is {number:g}, and {limit:g} is the limit."

    def _trouble(self) -> str:
        known = _TROUBLES.get(self.rule)
        if known is None:
            return f"{self.rule} of {self.subject}" if self.subject else self.rule
        return known.format(self.subject)


_TROUBLES: Final[Mapping[str, str]] = {
    "depth": "too many ready jobs of {}",
    "age": "ready jobs of {} that waited too long",
    "failure_rate": "too many failures of {}",
    "dead_letters": "unseen dead letters",
    "no_worker": "no worker for queue {}",
    "breaker": "breaker {} was open",
    "snapshot": "a long transaction",
}


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """What one run of a tenant's job used."""

    tenant: str
    task: str
    seconds: float
    outcome: str
    job_id: UUID
    attempt: int
