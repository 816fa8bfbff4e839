"""How values are named in sentences."""

from __future__ import annotations


def shown(value: object, limit: int = 60) -> str:
    """The value as a short piece of a sentence: never longer than `limit`, never raises."""
    try:
        text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    except ValueError:
        text = f"{type(value).__name__} of more than 4300 digits"  # Python refuses to print such integers.
    except Exception:  # A user's __repr__ must not hide the error that is being told.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def in_words(seconds: float) -> str:
    """A span as people say it, in two units at most: 12.3 s, 5 min, 1 h 59 min, 9 days 3 h."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return _two(whole, 60, "min", 1, "s")
    if whole < 2 * 86_400:
        return _two(whole, 3600, "h", 60, "min")
    return _two(whole, 86_400, "days", 3600, "h")


def _two(seconds: int, size: int, unit: str, small: int, small_unit: str) -> str:
    many, rest = divmod(seconds, size)
    return f"{many} {unit}" + (f" {rest // small} {small_unit}" if rest >= small else "")
