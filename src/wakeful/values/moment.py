"""Moments that every part can read: aware, and far enough inside the calendar to be told in any time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from wakeful.values.errors import InvalidOption
from wakeful.values.wording import shown

EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)
"""A day inside the years 1 and 9999, as `wakeful.in_calendar` has it."""


def moment(value: object, field: str) -> datetime:
    """The moment that is given; `field` names it in the error's sentence."""
    if not isinstance(value, datetime):
        raise InvalidOption(field, f"is {shown(value)}: give a datetime with a time zone.")
    if value.utcoffset() is None:
        raise InvalidOption(
            field, f"is {shown(value)}, without a time zone: make it aware, as in datetime.now(timezone.utc)."
        )
    if not EARLIEST <= value <= LATEST:
        raise InvalidOption(field, f"is {value.isoformat()}: stay a day inside the years 1 and 9999.")
    return value


def told_moment(text: str) -> datetime:
    """A moment as the database writes it in JSON; one that no calendar has is the nearest that it has."""
    try:
        return min(max(datetime.fromisoformat(text), EARLIEST), LATEST)
    except ValueError:
        return EARLIEST if text.startswith("-") or text.endswith("BC") else LATEST
