"""What the exceptions of a task mean: which are retried, and how, which are final, which are a service's fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from wakeful.values.errors import InvalidOption
from wakeful.values.policy import Faults, FaultsLike, exceptions, faults
from wakeful.values.retry import RetryLike, RetryPolicy, retry_policy
from wakeful.values.wording import shown

LONGEST_RETRY_AFTER: Final = timedelta(days=1)

RetryOn = type[BaseException] | tuple[type[BaseException], ...] | Mapping[type[BaseException], RetryLike]


@dataclass(frozen=True, slots=True)
class Failing:
    """`retried`: only these start again (None: all but the final ones); `policies`: by their own policies.

    `final`: these never do. `fault`: which count against the breaker (None: all). `redact`: fields of the payload whose
    values are kept out of what is stored about a failure.
    """

    retried: tuple[type[BaseException], ...] | None = None
    policies: Mapping[type[BaseException], RetryPolicy] = field(default_factory=dict)
    final: tuple[type[BaseException], ...] = ()
    fault: Faults | None = None
    redact: tuple[str, ...] = ()

    def is_final(self, error: BaseException) -> bool:
        """Whether a job that failed so does not start again."""
        if self.final and isinstance(error, self.final):
            return True
        return self.retried is not None and not isinstance(error, self.retried)

    def policy(self, error: BaseException) -> RetryPolicy | None:
        """The policy for this very kind of failure, the nearest class first; None for the task's own."""
        return next((self.policies[kind] for kind in type(error).__mro__ if kind in self.policies), None)

    def is_fault(self, error: BaseException) -> bool:
        """Whether the failure counts against the task's breaker. A user's function that raises says yes."""
        if self.fault is None:
            return True
        try:
            return bool(self.fault(error))
        except Exception:  # It is the user's own code, and the failure has to be settled.
            return True


def failing(retry_on: RetryOn | None, dead_on: object, breaker_on: FaultsLike | None, redact: object) -> Failing:
    """Checks what a task's options say about its exceptions."""
    policies: dict[type[BaseException], RetryPolicy] = {}
    retried: tuple[type[BaseException], ...] | None = None
    if isinstance(retry_on, Mapping):
        kinds = exceptions(tuple(retry_on), "retry_on")
        policies = {kind: retry_policy(retry_on[kind], "retry_on") for kind in kinds}
    elif retry_on is not None:
        retried = exceptions(retry_on, "retry_on")
    return Failing(
        retried,
        policies,
        () if dead_on is None else exceptions(dead_on, "dead_on"),
        faults(breaker_on, "breaker_on"),
        _fields(redact),
    )


NOTHING_SAID: Final = Failing()


def retry_after(told: Any) -> timedelta | None:
    """The wait that an HTTP `Retry-After` asks for; None where it asks for nothing that can be understood.

    Takes the header's value, a response (of httpx, requests or aiohttp), or an exception that carries one. A day at
    most.
    """
    value = _header(told)
    if value is None:
        return None
    text = str(value).strip()
    try:
        wait = timedelta(seconds=int(text)) if text.isdecimal() else parsedate_to_datetime(text) - datetime.now(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, timedelta(0)), LONGEST_RETRY_AFTER)


def _header(told: Any) -> object:
    if isinstance(told, str | int):
        return told
    response = getattr(told, "response", None)
    headers: Any = getattr(told if response is None else response, "headers", None)
    if not hasattr(headers, "get"):
        return None
    return headers.get("Retry-After") or headers.get("retry-after")


def _fields(redact: object) -> tuple[str, ...]:
    if redact is None:
        return ()
    if isinstance(redact, list | tuple | set | frozenset) and all(isinstance(name, str) and name for name in redact):
        return tuple(sorted(redact))
    raise InvalidOption("redact", f'is {shown(redact)}: list fields of the payload, as in ["password", "card.number"].')
