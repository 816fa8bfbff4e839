"""Cron lines: what is refused, and where; both edges of daylight-saving time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.tend.cron import NICKNAMES, cron, cron_line, moments
from wakeful.values.errors import InvalidOption

HELSINKI = ZoneInfo("Europe/Helsinki")


def local(line: str, start: datetime, count: int) -> list[str]:
    """The next moments as the clocks in Helsinki show them, with their distance from UTC."""
    found = islice(moments(cron(line, "Europe/Helsinki"), start), count)
    return [f"{moment.astimezone(HELSINKI):%d. %H:%M %z}" for moment in found]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("*/5 25 * * *", "'25' in column 5 is no hour; use 0 to 23"),
        ("61 * * * *", "'61' in column 1 is no minute; use 0 to 59"),
        ("0 1,2,99 * * *", "'99' in column 7 is no hour"),
        ("1,,2 * * * *", "',' in column 3 is no minute"),
        ("* * * FOO *", "'FOO' in column 7 is no month; use 1 to 12, or JAN to DEC"),
        ("  0   0 32 * *", "'32' in column 9 is no day of month"),
        ("* * * * MON#9", "'MON#9' in column 9 is no day of week"),
        ("5-1 * * * *", "'5-1' in column 1 is no minute"),
        ("*/0 * * * *", "'*/0' in column 1 is no minute"),
        ("0 99 * * * *", "'99' in column 3 is no minute"),
        ("L * * * *", "'L' in column 1 is no minute"),
        ("* * *", "with 3 fields: give minute, hour, day of month, month, day of week"),
        ("0 0 30 2 *", "a day that never comes: correct day of month"),
        ("@dayly", "no nickname: use one of @hourly, @daily"),
        ("", 'write a cron line such as "*/5 * * * *" or "@daily"'),
        (None, "write a cron line"),
        ("* " * 600, "1000 are the most"),
    ],
)
def test_a_bad_line_is_refused_with_the_place_of_the_fault(line: str, fault: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        cron_line(line)
    assert fault in str(refused.value)
    assert refused.value.option == "cron"


@pytest.mark.parametrize("tz", ["Mars/Phobos", "", "../etc/passwd", None, "Europe"])
def test_a_zone_that_is_none_is_refused(tz: str) -> None:
    with pytest.raises(InvalidOption, match="tz is"):
        cron("* * * * *", tz)


@given(st.text(max_size=30))
def test_whatever_is_written_is_a_line_or_refused(text: str) -> None:
    try:
        line = cron_line(text)
    except InvalidOption:
        return
    assert next(moments(cron(line), datetime(2026, 1, 1, tzinfo=UTC))) > datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", NICKNAMES)
def test_nicknames_stand_for_lines(name: str) -> None:
    assert cron_line(name.upper()) == NICKNAMES[name]


def test_daily_is_at_midnight_of_its_zone() -> None:
    assert local("@daily", datetime(2026, 6, 1, 12, tzinfo=UTC), 2) == ["02. 00:00 +0300", "03. 00:00 +0300"]


# The clocks go from 3:00 to 4:00 on 29 March 2026, and from 4:00 back to 3:00 on 25 October 2026.
BEFORE_SPRING = datetime(2026, 3, 28, 12, tzinfo=UTC)
BEFORE_AUTUMN = datetime(2026, 10, 24, 12, tzinfo=UTC)


def test_a_time_in_the_hour_that_is_skipped_runs_once_when_that_hour_is_over() -> None:
    assert local("30 3 * * *", BEFORE_SPRING, 2) == ["29. 04:00 +0300", "30. 03:30 +0300"]
    assert local("0,30 3 * * *", BEFORE_SPRING, 2) == ["29. 04:00 +0300", "30. 03:00 +0300"]


def test_a_time_in_the_hour_that_is_repeated_runs_once_in_the_first() -> None:
    assert local("30 3 * * *", BEFORE_AUTUMN, 2) == ["25. 03:30 +0300", "26. 03:30 +0200"]


def test_in_the_second_of_the_repeated_hours_its_time_is_over() -> None:
    second = datetime(2026, 10, 25, 3, 10, fold=1, tzinfo=HELSINKI)
    assert local("30 3 * * *", second, 1) == ["26. 03:30 +0200"]


def test_what_runs_every_hour_runs_by_the_time_that_passes() -> None:
    spring = local("30 * * * *", datetime(2026, 3, 29, 0, 0, tzinfo=UTC), 3)
    assert spring == ["29. 02:30 +0200", "29. 04:30 +0300", "29. 05:30 +0300"]
    autumn = local("30 * * * *", datetime(2026, 10, 25, 0, 0, tzinfo=UTC), 3)
    assert autumn == ["25. 03:30 +0300", "25. 03:30 +0200", "25. 04:30 +0200"]


@given(
    st.sampled_from(["30 3 * * *", "0,30 3 * * *", "*/20 * * * *", "15 */2 * * *", "0 0 1 * *", "5 3,4 * * 0"]),
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)),
)
def test_moments_only_go_forward_and_do_not_depend_on_where_one_begins(line: str, start: datetime) -> None:
    asked = cron(line, "Europe/Helsinki")
    found = list(islice(moments(asked, start), 6))
    assert found == sorted(set(found))
    assert found[0] > start
    for place, moment in enumerate(found[:-1]):
        assert next(moments(asked, moment)) == found[place + 1]
        assert next(moments(asked, moment - timedelta(microseconds=1))) == moment
