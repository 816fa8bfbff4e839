"""The address of a database, before anyone reads it."""

from __future__ import annotations

from wakeful.values.errors import InvalidOption
from wakeful.values.wording import shown


def address(value: object, field: str, without: str = "use the embedded server") -> str:
    """A DSN's text. An empty one comes from a variable that was not set, and is not the wish to go `without`."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    said = "empty" if isinstance(value, str) else shown(value)
    raise InvalidOption(
        field, f"is {said}: give postgresql://user:password@host:port/name, or leave it out to {without}."
    )
