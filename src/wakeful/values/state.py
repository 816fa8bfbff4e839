"""The states of a job, and the words that other queues have for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from wakeful.values.errors import InvalidOption
from wakeful.values.wording import shown

STATES: Final = ("scheduled", "ready", "running", "completed", "dead", "cancelled")
FINAL_STATES: Final = ("completed", "dead", "cancelled")

_WORDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **{state: (state,) for state in STATES},
        **dict.fromkeys(("pending", "queued"), ("scheduled", "ready")),
        **dict.fromkeys(("processing", "in_progress"), ("running",)),
        **dict.fromkeys(("success", "done"), ("completed",)),
        "failed": ("dead",),
        "canceled": ("cancelled",),
        "live": ("scheduled", "ready", "running"),
        "finished": FINAL_STATES,
    }
)


def states_called(word: str, field: str = "state") -> tuple[str, ...]:
    """The states that a word means, ours or another queue's: `pending` is scheduled and ready."""
    states = _WORDS.get(str(word).strip().lower())
    if states is None:
        raise InvalidOption(field, f"is {shown(word)}, which is no state of a job: use one of {', '.join(_WORDS)}.")
    return states


def final_state(word: str, field: str = "status") -> str:
    """The one final state that a word means."""
    states = _WORDS.get(str(word).strip().lower(), ())
    if len(states) != 1 or states[0] not in FINAL_STATES:
        raise InvalidOption(field, f"is {shown(word)}, which is not final: use completed, failed or cancelled.")
    return states[0]
