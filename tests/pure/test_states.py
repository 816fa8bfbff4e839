"""The words for states, ours and those of other queues."""

from __future__ import annotations

import pytest

from wakeful.values.errors import InvalidOption
from wakeful.values.report import Stats
from wakeful.values.state import FINAL_STATES, STATES, final_state, states_called


@pytest.mark.parametrize("state", STATES)
def test_each_state_is_called_by_its_own_name(state: str) -> None:
    assert states_called(state) == states_called(f" {state.upper()} ") == (state,)


@pytest.mark.parametrize(
    ("word", "states"),
    [
        ("pending", ("scheduled", "ready")),
        ("queued", ("scheduled", "ready")),
        ("processing", ("running",)),
        ("success", ("completed",)),
        ("failed", ("dead",)),
        ("canceled", ("cancelled",)),
        ("live", ("scheduled", "ready", "running")),
        ("finished", FINAL_STATES),
    ],
)
def test_other_queues_words_are_understood(word: str, states: tuple[str, ...]) -> None:
    assert states_called(word) == states


@pytest.mark.parametrize("word", ["", "sleeping", "dead letter"])
def test_other_words_are_refused_with_those_that_there_are(word: str) -> None:
    with pytest.raises(InvalidOption, match="use one of scheduled, ready, running"):
        states_called(word)


def test_a_final_state_is_one_that_a_job_ends_in() -> None:
    assert [final_state(word) for word in ("completed", "failed", "cancelled")] == list(FINAL_STATES)
    for word in ("ready", "live", "finished", "pending", "sleeping"):
        with pytest.raises(InvalidOption, match="is not final: use completed, failed or cancelled"):
            final_state(word)


def test_counts_are_told_in_a_simpler_queues_words() -> None:
    assert Stats(scheduled=1, ready=2, running=3, completed=4, dead=5, cancelled=6).in_other_words() == {
        "pending": 3,
        "processing": 3,
        "completed": 4,
        "failed": 5,
        "cancelled": 6,
        "total": 21,
    }
