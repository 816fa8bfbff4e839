"""Moments: what is taken, and how one is told that no calendar has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from wakeful.values.errors import InvalidOption
from wakeful.values.moment import EARLIEST, LATEST, moment, told_moment


@pytest.mark.parametrize("value", [EARLIEST, LATEST, datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=2)))])
def test_a_moment_of_the_calendar_is_taken_as_it_is(value: datetime) -> None:
    assert moment(value, "run_at") is value


@pytest.mark.parametrize(
    "value",
    [
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(-timedelta(hours=12))),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=12))),
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
    ],
)
def test_a_moment_at_the_edge_of_the_calendar_is_refused_in_a_sentence(value: datetime) -> None:
    with pytest.raises(InvalidOption, match=r"run_at is .*: stay a day inside the years 1 and 9999\.$"):
        moment(value, "run_at")


@pytest.mark.parametrize("offset", [-14, 0, 14])
def test_what_is_taken_can_be_told_in_any_zone(offset: int) -> None:
    zone = timezone(timedelta(hours=offset))
    assert [at.astimezone(zone) for at in (EARLIEST, LATEST)] == [EARLIEST, LATEST]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-01-31T08:00:00+00:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("infinity", LATEST),
        ("20000-01-01T00:00:00+00:00", LATEST),
        ("9999-12-31T23:59:59-12:00", LATEST),
        ("-infinity", EARLIEST),
        ("0044-03-15T00:00:00+00:00 BC", EARLIEST),
        ("0001-01-01T00:00:00+12:00", EARLIEST),
    ],
)
def test_a_moment_that_no_calendar_has_is_told_as_the_nearest(text: str, told: datetime) -> None:
    assert told_moment(text) == told
