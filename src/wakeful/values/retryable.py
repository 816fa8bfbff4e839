"""The two pure questions of a hand-written loop: may this job start again, and how long to wait before it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from wakeful.values.errors import InvalidOption
from wakeful.values.number import whole_number
from wakeful.values.retry import DEFAULT_MAX_ATTEMPTS
from wakeful.values.wording import shown

_LONGEST_BACKOFF_SECONDS: Final = 60

_OPEN: Final = frozenset({"scheduled", "ready", "waiting", "pending", "queued", "failed", "dead"})
_CLOSED: Final = frozenset(
    {"running", "processing", "in_progress", "completed", "success", "done", "cancelled", "canceled"}
)


def backoff(attempts: int) -> timedelta:
    """The wait after `attempts` starts: 1, 1, 2, 4, 8 … seconds from attempt 0 on, 60 at most."""
    doublings = max(whole_number(attempts, "attempts", 0) - 1, 0)
    # Past six doublings the cap holds; computing 2 ** attempts for a silly number of attempts would not end.
    return timedelta(seconds=min(2 ** min(doublings, 6), _LONGEST_BACKOFF_SECONDS))


def can_retry(state: str, attempts: int, max_attempts: int = DEFAULT_MAX_ATTEMPTS) -> bool:
    """Whether a job in this state, started `attempts` times, may start again.

    Takes wakeful's own words and those of other queues (pending, queued, processing, success, failed …), in
    any case.
    """
    word = str(state).strip().lower()
    if word not in _OPEN | _CLOSED:
        known = ", ".join(sorted(_OPEN | _CLOSED))
        raise InvalidOption("state", f"is {shown(state)}, which is no state of a job: use one of {known}.")
    return word in _OPEN and whole_number(attempts, "attempts", 0) < whole_number(max_attempts, "max_attempts", 0)
