"""Which slots a schedule takes when it is due: the policies for those that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.tend.cron import moments
from wakeful.tend.slots import GRACE, firing, newest_slots, next_slot
from wakeful.values.schedule import Cron, DueSchedule, Every, Misfire, Timing

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOURLY = Cron("0 * * * *")


def due(
    now: datetime,
    *,
    timing: Timing = HOURLY,
    misfire: Misfire = "latest",
    cap: int = 100,
    last: datetime | None = None,
    since: datetime = NOON,
) -> DueSchedule:
    return DueSchedule("s", timing, misfire, cap, NOON, since, last, 1, now)


def hours(*numbers: int) -> tuple[datetime, ...]:
    return tuple(NOON + timedelta(hours=number) for number in numbers)


def test_a_slot_that_has_just_come_is_taken_whatever_the_policy() -> None:
    now = NOON + timedelta(hours=1, milliseconds=3)
    for misfire in ("latest", "skip", "all"):
        made = firing(due(now, misfire=misfire))
        assert (made.slots, made.next_slot) == (hours(1), hours(2)[0])


def test_of_missed_slots_the_latest_is_taken() -> None:
    made = firing(due(NOON + timedelta(hours=5, minutes=30)))
    assert (made.slots, made.next_slot) == (hours(5), hours(6)[0])


def test_or_none_when_they_are_skipped() -> None:
    assert firing(due(NOON + timedelta(hours=5, minutes=30), misfire="skip")).slots == ()
    assert firing(due(NOON + timedelta(hours=5) + GRACE, misfire="skip")).slots == hours(5)
    assert firing(due(NOON + timedelta(hours=5, microseconds=1) + GRACE, misfire="skip")).slots == ()


def test_or_all_of_them_up_to_the_cap_the_newest() -> None:
    now = NOON + timedelta(hours=5, minutes=30)
    assert firing(due(now, misfire="all")).slots == hours(1, 2, 3, 4, 5)
    assert firing(due(now, misfire="all", cap=2)).slots == hours(4, 5)


def test_slots_up_to_the_last_one_and_before_it_was_made_are_over() -> None:
    now = NOON + timedelta(hours=5, minutes=30)
    assert firing(due(now, misfire="all", last=hours(3)[0])).slots == hours(4, 5)
    assert firing(due(now, misfire="all", last=hours(1)[0], since=hours(4)[0])).slots == hours(5)
    assert firing(due(NOON + timedelta(minutes=1))).slots == ()


def test_an_interval_counts_from_when_the_schedule_was_made() -> None:
    third = NOON + timedelta(minutes=21)
    made = firing(due(third + timedelta(seconds=1), timing=Every(timedelta(minutes=7)), misfire="all"))
    assert made.slots == tuple(NOON + timedelta(minutes=minutes) for minutes in (7, 14, 21))
    assert made.next_slot == NOON + timedelta(minutes=28)


def test_a_century_of_missed_seconds_takes_no_time() -> None:
    far = NOON + timedelta(days=36_500)
    for timing in (Every(timedelta(seconds=1)), Cron("* * * * *", "Europe/Helsinki")):
        assert len(newest_slots(timing, NOON, NOON, far, 1000)) == 1000


def test_no_slot_before_the_first() -> None:
    early = NOON - timedelta(days=1)
    assert newest_slots(Every(timedelta(hours=1)), NOON, early, NOON, 10) == []
    assert next_slot(Every(timedelta(hours=1)), NOON, early) == NOON + timedelta(hours=1)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Helsinki"])
@given(
    st.sampled_from(["30 3 * * *", "*/20 * * * *", "0 0 1 * *", "15,45 3-5 * * *", "0 0 L * *"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC)),
    st.timedeltas(timedelta(0), timedelta(days=20)),
    st.integers(1, 5),
)
def test_the_newest_are_the_last_of_all(zone: str, line: str, after: datetime, length: timedelta, most: int) -> None:
    """However they are found: by walking through all of them it is the same."""
    timing, until, every = Cron(line, zone), after + length, []
    for moment in moments(timing, after):
        if moment > until:
            break
        every.append(moment)
    assert newest_slots(timing, after, after, until, most) == every[-most:]
