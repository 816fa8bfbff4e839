"""Durations as people write them."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.values.duration import LONGEST, duration, nonnegative_duration
from wakeful.values.errors import InvalidOption


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (timedelta(minutes=5), 300),
        (90, 90),
        (0, 0),
        (1.5, 1.5),
        ("90", 90),
        ("0", 0),
        ("1.5", 1.5),
        (".5s", 0.5),
        ("5m", 300),
        ("5 m", 300),
        (" 5m ", 300),
        ("5 Minutes", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("250 MS", 0.25),
        ("10us", 0.00001),
        ("10µs", 0.00001),
        ("2 days", 172_800),
        ("1 day 2 hours 3 min 4 sec", 93_784),
        ("1w", 604_800),
        ("30m1h", 5400),
        ("-5m", -300),
        ("+5m", 300),
        (-2, -2),
    ],
)
def test_a_duration_is_read(written: Any, seconds: float) -> None:
    assert duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            " ",
            "m",
            "5x",
            "5 fortnights",
            "1h1h",
            "1h60minutes1m",
            "5m30",
            "--5m",
            "+-5",
            "-",
            "5m!",
            "1,5h",
        ),
        *("1e3", "inf", "nan", "PT5M", "٥m", "5_0s", "1..5s", "0x10", "5m -3s"),
        *(True, False, None, [], b"5m", math.nan, math.inf, -math.inf, 1j),
    ],
)
def test_what_is_no_duration_is_refused_by_its_value(written: Any) -> None:
    with pytest.raises(InvalidOption) as refused:
        duration(written, "delay")
    assert str(refused.value).startswith(f"delay is {written!r}")
    assert refused.value.option == "delay"


@pytest.mark.parametrize(
    "written",
    [
        *(timedelta.max, timedelta.min, 10**12, 1e300, "999999999999d"),
        pytest.param(10**5000, id="an integer that Python does not print"),
        pytest.param("9" * 5000, id="five thousand digits"),
    ],
)
def test_what_leaves_the_calendar_is_refused(written: Any) -> None:
    with pytest.raises(InvalidOption, match="too long"):
        duration(written)


def test_the_longest_is_accepted() -> None:
    assert duration("365000d") == LONGEST


@pytest.mark.parametrize("written", [-1, "-1ms", timedelta(microseconds=-1)])
def test_a_negative_one_is_refused_where_it_makes_no_sense(written: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^timeout is .*negative"):
        nonnegative_duration(written, "timeout")


def test_zero_is_not_negative() -> None:
    assert nonnegative_duration(0, "delay") == timedelta(0)


@given(st.timedeltas(timedelta(0), LONGEST))
def test_a_duration_in_parts_reads_as_the_whole(span: timedelta) -> None:
    text = f"{span.days}d {span.seconds}s {span.microseconds}us"
    assert duration(text) == duration(span) == span


@given(st.floats(-1e9, 1e9))
def test_a_number_and_its_text_are_the_same_duration(seconds: float) -> None:
    assert abs(duration(f"{seconds:.9f}") - duration(seconds)) <= timedelta(microseconds=1)


@given(st.text())
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    with suppress(InvalidOption):
        assert abs(duration(text)) <= LONGEST
