"""Durations as people write them: `timedelta`, a number of seconds, or text such as "5m" and "1h30m"."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

from wakeful.values.errors import InvalidOption
from wakeful.values.wording import shown

DurationLike = timedelta | float | int | str

LONGEST: Final = timedelta(days=365_000)
"""About a thousand years: what is accepted can be added to any plausible date and stays in the calendar."""

_EXAMPLES: Final = 'write a timedelta, a number of seconds, or text such as "250ms", "90", "5m", "1h30m" or "2 days".'

_SPELLINGS: Final = {
    1: "us µs μs usec microsecond microseconds",
    1_000: "ms msec millisecond milliseconds",
    1_000_000: "s sec secs second seconds",
    60_000_000: "m min mins minute minutes",
    3_600_000_000: "h hr hrs hour hours",
    86_400_000_000: "d day days",
    604_800_000_000: "w week weeks",
}
_MICROSECONDS: Final = {unit: size for size, units in _SPELLINGS.items() for unit in units.split()}

_NUMBER: Final = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_BARE: Final = re.compile(_NUMBER)
_PART: Final = re.compile(rf"\s*({_NUMBER})\s*([^\W\d_]+)\s*")


def duration(value: DurationLike, field: str = "duration") -> timedelta:
    """The duration that `value` says, to the microsecond; `field` names it in the error's sentence."""
    span = _read(value, field)
    if not -LONGEST <= span <= LONGEST:
        raise InvalidOption(field, f"is {shown(value)}, which is too long: stay within {LONGEST.days} days.")
    return span


def nonnegative_duration(value: DurationLike, field: str) -> timedelta:
    """A duration of zero or more."""
    span = duration(value, field)
    if span < timedelta(0):
        raise InvalidOption(field, f"is {shown(value)}, but cannot be negative: give zero or more.")
    return span


def positive_duration(value: DurationLike, field: str) -> timedelta:
    """A duration of more than zero."""
    span = duration(value, field)
    if span > timedelta(0):
        return span
    raise InvalidOption(field, f"is {shown(value)}: give a duration of more than zero.")


def _read(value: object, field: str) -> timedelta:
    try:
        match value:
            case timedelta():
                return value
            case bool():
                pass
            case int():
                return timedelta(seconds=value)
            case float() if math.isfinite(value):
                return timedelta(seconds=value)
            case str():
                return timedelta(microseconds=round(_microseconds(value, field)))
    except OverflowError:
        raise InvalidOption(field, f"is {shown(value)}, which is too long: stay within {LONGEST.days} days.") from None
    raise InvalidOption(field, f"is {shown(value)}, which is not a duration: {_EXAMPLES}")


def _microseconds(text: str, field: str) -> Decimal:
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body.lstrip("+-") if body[:2].strip("+-") else body
    if _BARE.fullmatch(body):
        return sign * Decimal(body) * 1_000_000
    total, position, seen = Decimal(0), 0, set[int]()
    while part := _PART.match(body, position):
        size = _MICROSECONDS.get(part[2] if part[2] in _MICROSECONDS else part[2].lower())
        if size is None:
            raise InvalidOption(field, f"is {shown(text)}, and {shown(part[2])} is no unit of time: {_EXAMPLES}")
        if size in seen:
            raise InvalidOption(field, f"is {shown(text)}, which names a unit twice: {_EXAMPLES}")
        seen.add(size)
        total += Decimal(part[1]) * size
        position = part.end()
    if not seen or position != len(body):
        raise InvalidOption(field, f"is {shown(text)}, which is not a duration: {_EXAMPLES}")
    return sign * total
