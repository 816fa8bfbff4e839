"""Values and arrays as PostgreSQL's text, for statements that carry thousands of values, on any driver.

A driver adapts a list element by element: psycopg spends 10 µs on a row of an id and a payload, where one
text costs half a microsecond. In SQL such a parameter is cast twice, `%(ids)s::text::uuid[]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

_MICROSECOND = timedelta(microseconds=1)


def array_of(values: Iterable[object]) -> str:
    """The array's text. Takes str, UUID, int, bool, datetime, timedelta and None."""
    return "{" + ",".join([_element(value) for value in values]) + "}"


def text_of(value: object) -> str | None:
    """One value's text. Takes what `array_of` takes."""
    if value is None or type(value) is str:
        return value
    return str.__str__(value) if isinstance(value, str) else _other(value).strip('"')


def _element(value: object) -> str:
    # By type, not by isinstance: this runs for every value of every column, and subclasses fall through.
    kind = type(value)
    if kind is str:
        return _quoted(value)  # type: ignore[arg-type]
    if kind is UUID:
        return f"{value.int:032x}"  # type: ignore[attr-defined]
    return "null" if value is None else _other(value)


def _other(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case UUID():
            return value.hex
        case datetime():
            return f'"{value.isoformat()}"'
        case timedelta():
            # Not in days: PostgreSQL's day has 23 to 25 hours.
            return f'"{value // _MICROSECOND} microseconds"'
        case str():
            return _quoted(str.__str__(value))
    raise TypeError(f"no array of {type(value).__name__} is sent to PostgreSQL")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
