"""The `[retry]` table of a settings file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wakeful.values.errors import InvalidOption
from wakeful.values.number import whole_number
from wakeful.values.retry import Exponential, RetryPolicy, Steps, starts_allowed

_PREFIX: Final = "[retry] "
_MILLISECONDS: Final = {"base_ms": "base", "max_ms": "cap"}
_KNOWN: Final = ("base", "factor", "cap", "jitter", "steps", "max_attempts")


def retry_settings(table: Mapping[str, Any]) -> tuple[RetryPolicy, int]:
    """The policy, and the number of starts, for tasks that say nothing themselves. Milliseconds are taken too."""
    said = {_MILLISECONDS.get(name, name): _read(name, value) for name, value in table.items()}
    if unknown := said.keys() - set(_KNOWN):
        raise InvalidOption(f"{_PREFIX}{min(unknown)}", f"is not known: use {', '.join((*_KNOWN, *_MILLISECONDS))}.")
    attempts = said.pop("max_attempts", None)
    try:
        steps = said.pop("steps", None)
        if steps is not None and said:
            raise InvalidOption("steps", "is given beside " + ", ".join(said) + ": give steps alone.")
        policy: RetryPolicy = Exponential(**said) if steps is None else Steps(steps)
        return policy, starts_allowed(policy, max_attempts=attempts)
    except InvalidOption as error:
        raise InvalidOption(f"{_PREFIX}{error.option}", error.problem) from None


def _read(name: str, value: Any) -> Any:
    return f"{whole_number(value, _PREFIX + name, 0)}ms" if name in _MILLISECONDS else value
