"""Numbers that options may have."""

from __future__ import annotations

import sys

from wakeful.values.errors import InvalidOption
from wakeful.values.wording import shown


def whole_number(value: object, field: str, least: int, most: int = sys.maxsize) -> int:
    """An integer within bounds; True and 1.0 are none."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise InvalidOption(field, f"is {shown(value)}: give a whole number {_bounds(least, most, sys.maxsize)}.")


def real_number(value: object, field: str, least: float, most: float = sys.float_info.max) -> float:
    """A finite number within bounds, as a float."""
    # NaN is within no bounds: it compares as false with everything.
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
        return float(value)
    raise InvalidOption(field, f"is {shown(value)}: give a number {_bounds(least, most, sys.float_info.max)}.")


def _bounds(least: float, most: float, endless: float) -> str:
    return f"of {least:g} or more" if most == endless else f"from {least:g} to {most:g}"
