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
