"""Retry policies: when a failed job starts again."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.values.errors import InvalidOption
from wakeful.values.retry import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_RETRY,
    ByFunction,
    Exponential,
    Fixed,
    Never,
    RetryPolicy,
    Steps,
    retry_policy,
    starts_allowed,
)

seconds = st.floats(0.001, 1e6)
jitters = st.floats(0, 1)
draws = st.floats(0, 1, exclude_max=True)

policies: list[RetryPolicy] = [
    Exponential(),
    Steps([0, 30, 300]),
    Fixed("30s"),
    Never(),
    ByFunction(lambda n: n),
]


def waits(policy: RetryPolicy, attempts: int, draw: Callable[[], float] = lambda: 0.5) -> list[float | None]:
    delays = [policy.delay(attempt, draw) for attempt in range(1, attempts + 1)]
    return [None if delay is None else delay.total_seconds() for delay in delays]


def test_the_default_is_five_starts_and_waits_of_one_second_doubling_to_three_hundred() -> None:
    assert Exponential(1, 2, 300, 0.1) == DEFAULT_RETRY
    assert waits(DEFAULT_RETRY, 9) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert waits(Exponential(jitter=0), 12)[-3:] == [300, 300, 300]
    assert starts_allowed(DEFAULT_RETRY) == DEFAULT_MAX_ATTEMPTS == 5


def test_in_steps_the_nth_number_is_the_wait_before_start_n() -> None:
    policy = Steps([0, 30, "5m"])
    assert [policy.delay(started) for started in range(5)] == [
        timedelta(0),
        timedelta(seconds=30),
        timedelta(minutes=5),
        None,
        None,
    ]
    assert starts_allowed(policy) == 3


def test_fixed_waits_the_same_time_and_never_does_not_wait_at_all() -> None:
    assert waits(Fixed(30), 3) == [30, 30, 30]
    assert waits(Never(), 2) == [None, None]
    assert starts_allowed(Never()) == 1


def test_a_function_is_asked_with_the_number_of_starts() -> None:
    policy = retry_policy(lambda attempt: None if attempt > 2 else f"{attempt}m")
    assert waits(policy, 3) == [60, 120, None]
    with pytest.raises(InvalidOption, match="the retry function's result is -1"):
        retry_policy(lambda _: -1).delay(1)


@pytest.mark.parametrize("policy", policies, ids=lambda policy: type(policy).__name__)
def test_every_policy_is_a_value(policy: RetryPolicy) -> None:
    assert isinstance(policy, RetryPolicy)
    assert retry_policy(policy) is policy
    assert policy.delay(0) == timedelta(0), "nothing delays the first start"
    with pytest.raises(InvalidOption, match="attempt is -1"):
        policy.delay(-1)
    with pytest.raises((AttributeError, TypeError)):
        policy.starts = 7  # type: ignore[misc]
    if not isinstance(policy, ByFunction):
        assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301
        assert hash(policy) == hash(policy)


@given(seconds, st.floats(1, 100), seconds, jitters, st.integers(1, 10**6), draws)
def test_an_exponential_wait_stays_around_its_curve_and_below_the_cap(
    base: float, factor: float, more: float, jitter: float, attempt: int, chance: float
) -> None:
    policy = Exponential(base, factor, base + more, jitter)
    middle = Exponential(base, factor, base + more, 0).delay(attempt)
    delay = policy.delay(attempt, lambda: chance)
    assert middle is not None
    assert delay is not None
    assert middle * (1 - jitter) - timedelta(microseconds=2) <= delay <= policy.cap
    assert delay <= middle * (1 + jitter) + timedelta(microseconds=2)
    assert policy.base <= middle <= policy.cap


@given(seconds, st.floats(1, 10), seconds, jitters, draws)
def test_exponential_waits_never_shrink(base: float, factor: float, more: float, jitter: float, chance: float) -> None:
    policy = Exponential(base, factor, base + more, jitter)
    grown = [delay for delay in waits(policy, 40, lambda: chance) if delay is not None]
    assert len(grown) == 40
    assert all(later >= sooner - 2e-6 for sooner, later in pairwise(grown))


def test_jitter_spreads_a_herd_also_at_the_cap() -> None:
    draw = random.Random(7).random
    for policy in (DEFAULT_RETRY, Fixed(60, jitter=0.1)):
        herd = [policy.delay(20, draw) for _ in range(1_000)]
        returns = sorted(delay.total_seconds() for delay in herd if delay is not None)
        busiest = max(sum(start <= other < start + 1 for other in returns) for start in returns)
        assert returns[-1] - returns[0] > 10
        assert busiest < 150
        assert len(set(returns)) > 990


def test_without_jitter_there_is_no_chance() -> None:
    def never_asked() -> float:
        raise AssertionError

    assert Exponential(jitter=0).delay(3, never_asked) == timedelta(seconds=4)
    assert Fixed(5).delay(3, never_asked) == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Exponential(base=-1), "base"),
        (lambda: Exponential(base=0), "base"),
        (lambda: Exponential(base=math.nan), "base"),
        (lambda: Exponential(base="soon"), "base"),
        (lambda: Exponential(base=10, cap=5), "cap"),
        (lambda: Exponential(cap=-1), "cap"),
        (lambda: Exponential(cap=math.inf), "cap"),
        (lambda: Exponential(factor=0.5), "factor"),
        (lambda: Exponential(factor=math.nan), "factor"),
        (lambda: Exponential(factor=math.inf), "factor"),
        (lambda: Exponential(factor=True), "factor"),
        (lambda: Exponential(jitter=1.1), "jitter"),
        (lambda: Exponential(jitter=-0.1), "jitter"),
        (lambda: Exponential(jitter=math.nan), "jitter"),
        (lambda: Fixed(-1), "wait"),
        (lambda: Fixed(1, jitter=2), "jitter"),
        (lambda: Steps([]), "waits"),
        (lambda: Steps("5m"), "waits"),
        (lambda: Steps([0, -5]), "waits[1]"),
        (lambda: Steps([0, True]), "waits[1]"),
        (lambda: retry_policy("often"), "retry"),  # type: ignore[arg-type]
        (lambda: retry_policy(Exponential), "retry"),  # type: ignore[arg-type]
        (lambda: retry_policy(None), "retry"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_setting_is_refused_when_it_is_made_and_named(build: Callable[[], Any], field: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        build()
    assert refused.value.option == field
    assert str(refused.value).startswith(f"{field} is ")


def test_max_retries_means_one_start_more() -> None:
    assert starts_allowed(Exponential(), max_retries=0) == 1
    assert starts_allowed(Exponential(), max_retries=3) == 4
    assert starts_allowed(Steps([0, 1]), max_attempts=7) == 7


@pytest.mark.parametrize(
    "limits",
    [
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_attempts": 10_001},
        {"max_attempts": 2.0},
        {"max_retries": -1},
        {"max_retries": 10_000},
        {"max_attempts": 2, "max_retries": 1},
    ],
)
def test_a_wrong_number_of_starts_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        starts_allowed(DEFAULT_RETRY, **limits)
