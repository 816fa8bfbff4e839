"""Where the last claim ended, and what brings the start of the next one back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from wakeful.claim.horizon import LONGEST_LIFE, LOOKS_IN_A_LIFE, SHORTEST_LIFE, Horizon
from wakeful.values.wakeup import Position

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(rank: int, seconds: int = 0, id: int = 5) -> Position:
    return Position(rank, START + timedelta(seconds=seconds), UUID(int=id))


def test_without_one_a_claim_starts_at_the_start_of_the_line() -> None:
    assert Horizon().bounds(["a"], 0) is None


def test_it_bounds_the_queues_of_the_claim_and_no_others() -> None:
    horizon = Horizon()
    horizon.advance(["a", "b"], at(0), 1.0, 0.0)
    assert horizon.bounds(["a", "b", "c"], 1.0) == [at(0), at(0), None]
    assert horizon.bounds_anything


@pytest.mark.parametrize(
    ("took", "life"),
    [(0.001, SHORTEST_LIFE), (0.02, 0.02 * LOOKS_IN_A_LIFE), (0.2, 0.2 * LOOKS_IN_A_LIFE), (9, LONGEST_LIFE)],
)
def test_it_lives_for_many_times_as_long_as_the_look_took_even_if_it_moves(took: float, life: float) -> None:
    horizon = Horizon()
    horizon.advance(["a"], at(0), 1.0, took)
    horizon.advance(["a"], at(0, 1), 0.99 + life, 30.0)
    assert horizon.bounds(["a"], 0.99 + life) == [at(0, 1)]
    assert horizon.bounds(["a"], 1.01 + life) is None


def test_a_poke_lowers_it_to_just_before_what_was_added() -> None:
    horizon = Horizon()
    horizon.advance(["a"], at(0, 10), 1.0, 0.0)
    horizon.lower("a", at(-5, 3, id=9))
    [bound] = horizon.bounds(["a"], 1.0) or [None]
    assert bound is not None
    assert at(-5, 3, id=8) <= bound < at(-5, 3, id=9)


def test_a_poke_behind_it_changes_nothing() -> None:
    horizon = Horizon()
    horizon.advance(["a"], at(0, 10), 1.0, 0.0)
    horizon.lower("a", at(0, 11))
    horizon.lower("b", at(-9))
    assert horizon.bounds(["a", "b"], 1.0) == [at(0, 10), None]


def test_a_poke_that_knows_no_position_drops_it_for_its_queue() -> None:
    horizon = Horizon()
    horizon.advance(["a", "b"], at(0), 1.0, 0.0)
    horizon.lower("a", None)
    assert horizon.bounds(["a", "b"], 1.0) == [None, at(0)]


def test_the_first_of_all_ids_can_be_lowered_to() -> None:
    horizon = Horizon()
    horizon.advance(["a"], at(0), 1.0, 0.0)
    horizon.lower("a", at(-1, id=0))
    assert horizon.bounds(["a"], 1.0) == [at(-1, id=0)]


def test_dropped_it_bounds_nothing() -> None:
    horizon = Horizon()
    horizon.advance(["a"], at(0), 1.0, 0.0)
    horizon.drop()
    assert horizon.bounds(["a"], 1.0) is None
