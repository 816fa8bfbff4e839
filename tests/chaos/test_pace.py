"""How throughput is told: as a share of what it was, with its error."""

from __future__ import annotations

import pytest

from tests.chaos.pace import Pace, pace_of, rate_of, settled


def test_the_median_is_told_and_one_odd_burst_does_not_move_it() -> None:
    assert pace_of([1.0, 1.0, 1.0, 1.0, 9.0]).rate == 1.0


def test_the_beginning_and_the_end_of_a_burst_do_not_count() -> None:
    done = [100.0 + n / 50 for n in range(100)]
    assert rate_of([0.0, *done[1:-1], 1000.0]) == pytest.approx(50)


def test_bursts_that_scatter_have_a_larger_error() -> None:
    assert pace_of([0.5, 1.0, 1.5]).error > pace_of([0.9, 1.0, 1.1]).error > 0


def test_what_is_half_as_fast_as_before_is_told_so() -> None:
    share = Pace(0.4, 0.04).against(Pace(0.8, 0.0))
    assert share.rate == pytest.approx(0.5)
    assert share.error == pytest.approx(0.05)


def test_bursts_that_agree_are_enough_and_others_are_outwaited() -> None:
    calm = iter([100.0, 100.1, 99.9, 50.0])
    assert settled(lambda: next(calm), 3).rate == 100.0
    assert next(calm) == 50.0
    upset = iter([100.0, 50.0, 100.0, 100.0, 100.0, 100.0, 1.0])
    assert settled(lambda: next(upset), 3).rate == 100.0
    assert next(upset) == 1.0
