"""Retry policies as they travel with a job, in its metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from wakeful.values.errors import InvalidOption
from wakeful.values.retry import Exponential, Fixed, Never, RetryPolicy, Steps

_MAKERS: Final[Mapping[str, Callable[[Any], RetryPolicy]]] = {
    "exponential": lambda said: Exponential(*said),
    "fixed": lambda said: Fixed(*said),
    "steps": Steps,
    "never": lambda _: Never(),
}


def policy_as_json(policy: RetryPolicy) -> dict[str, object]:
    """The policy as plain values, in seconds; a function cannot travel."""
    match policy:
        case Exponential():
            said = [policy.base.total_seconds(), policy.factor, policy.cap.total_seconds(), policy.jitter]
            return {"exponential": said}
        case Fixed():
            return {"fixed": [policy.wait.total_seconds(), policy.jitter]}
        case Steps():
            return {"steps": [wait.total_seconds() for wait in policy.waits]}
        case Never():
            return {"never": True}
    raise InvalidOption("retry", "is a function, which cannot be stored with a job: give it to the task instead.")


def policy_in(metadata: str) -> RetryPolicy | None:
    """The policy in a job's metadata (JSON text); None for none that can be read."""
    try:
        [(kind, said)] = json.loads(metadata)["retry"].items()
        return _MAKERS[kind](said)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidOption):
        return None
