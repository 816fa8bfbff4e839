"""How throughput is told: as a share of what it was, with its error."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.chaos.pace import Done, Pace, pace_of, rates_of, settled

ANY = uuid4()


def test_the_median_is_told_and_one_odd_burst_does_not_move_it() -> None:
    assert pace_of([1.0, 1.0, 1.0, 1.0, 9.0]).rate == 1.0


def test_the_beginning_and_the_end_of_a_burst_do_not_count() -> None:
    done = [Done(100.0 + n / 50, ANY) for n in range(100)]
    assert rates_of([Done(0.0, ANY), *done[1:-1], Done(1000.0, ANY)], 1) == [pytest.approx(50)]


def test_a_burst_counts_from_when_the_last_worker_came() -> None:
    one, two = uuid4(), uuid4()
    alone = [Done(n / 50, one) for n in range(200)]
    together = [Done(4 + n / 100, (one, two)[n % 2]) for n in range(400)]
    assert rates_of([*alone, *together], 2) == [pytest.approx(100)] * 2


def test_a_worker_that_does_not_come_shows() -> None:
    one, two = uuid4(), uuid4()
    alone = [Done(n / 50, one) for n in range(560)]
    [rate] = rates_of([*alone, *(Done(11.2 + n / 100, two) for n in range(40))], 1)
    assert rate == pytest.approx(50)


def test_bursts_that_scatter_have_a_larger_error() -> None:
    assert pace_of([0.5, 1.0, 1.5]).error > pace_of([0.9, 1.0, 1.1]).error > 0


def test_what_is_half_as_fast_as_before_is_told_so() -> None:
    share = Pace(0.4, 0.04).against(Pace(0.8, 0.0))
    assert share.rate == pytest.approx(0.5)
    assert share.error == pytest.approx(0.05)


def test_bursts_that_agree_are_enough_and_others_are_outwaited() -> None:
    calm = iter([100.0, 100.1, 99.9, 50.0])
    assert settled(lambda: [next(calm)], 3).rate == 100.0
    assert next(calm) == 50.0
    upset = iter([100.0, 50.0, 100.0, 100.0, 100.0, 100.0, 1.0])
    assert settled(lambda: [next(upset)], 3).rate == 100.0
    assert next(upset) == 1.0


def test_a_long_burst_is_many_in_one() -> None:
    upset = iter([[100.0, 50.0, 100.0], [100.0, 100.0, 100.0], [1.0]])
    assert settled(lambda: next(upset), 3).rate == 100.0
    assert next(upset) == [1.0]
