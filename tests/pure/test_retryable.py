"""`backoff` and `can_retry`: the pure questions of a hand-written loop."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.values.errors import InvalidOption
from wakeful.values.retryable import backoff, can_retry


def test_backoff_is_one_one_two_four_eight_and_sixty_at_most() -> None:
    assert [backoff(attempts).total_seconds() for attempts in range(10)] == [
        1,
        1,
        2,
        4,
        8,
        16,
        32,
        60,
        60,
        60,
    ]


@given(st.integers(0, 10**18))
def test_backoff_grows_and_stays_within_its_bounds(attempts: int) -> None:
    assert 1 <= backoff(attempts).total_seconds() <= backoff(attempts + 1).total_seconds() <= 60


@pytest.mark.parametrize("state", ["failed", "dead", "pending", "queued", "ready", "scheduled", "waiting", " FAILED "])
def test_a_job_may_start_again_until_its_starts_are_used_up(state: str) -> None:
    assert [can_retry(state, attempts) for attempts in range(7)] == [True] * 5 + [False] * 2
    assert can_retry(state, 2, max_attempts=3)
    assert not can_retry(state, 3, 3)


@pytest.mark.parametrize(
    "state",
    ["completed", "success", "done", "running", "processing", "in_progress", "cancelled", "IN_PROGRESS"],
)
def test_what_runs_or_is_over_does_not_start_again(state: str) -> None:
    assert not can_retry(state, 0)


@pytest.mark.parametrize("state", ["", "fail", "complete", None, 3])
def test_an_unknown_state_is_refused(state: Any) -> None:
    with pytest.raises(InvalidOption, match=r"state is .*, which is no state of a job: use one of canceled, "):
        can_retry(state, 0)


@pytest.mark.parametrize("attempts", [-1, True, 1.0, "1", None])
def test_attempts_are_counted_in_whole_numbers(attempts: Any) -> None:
    with pytest.raises(InvalidOption, match="attempts"):
        backoff(attempts)
    with pytest.raises(InvalidOption, match="attempts"):
        can_retry("failed", attempts)
