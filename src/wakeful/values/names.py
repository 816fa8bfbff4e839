"""What tasks, queues and labels may be called, so that every name survives SQL, a shell and a log line."""

from __future__ import annotations

from typing import Final

from wakeful.values.errors import InvalidOption
from wakeful.values.wording import shown

TASK_NAME_LIMIT: Final = 200
QUEUE_NAME_LIMIT: Final = 100
LABEL_LIMIT: Final = 200


def task_name(value: str, field: str = "task") -> str:
    """A task's name: printable, without white space, at most 200 bytes (`billing.charge`)."""
    name = label(value, field, TASK_NAME_LIMIT)
    if any(character.isspace() for character in name):
        raise InvalidOption(field, f"is {shown(value)}, which has white space in it: use dots, as in billing.charge.")
    return name


def queue_name(value: str, field: str = "queue") -> str:
    """A queue's name: at most 100 bytes, without white space and the `:` and `,` of `--queues`."""
    name = label(value, field, QUEUE_NAME_LIMIT)
    if any(character.isspace() or character in ":," for character in name):
        raise InvalidOption(field, f"is {shown(value)}: leave out white space, colons and commas.")
    return name


def label(value: str, field: str, limit: int = LABEL_LIMIT) -> str:
    """Free text that identifies something (a tenant, an author): printable, not empty, within `limit` bytes."""
    if not isinstance(value, str):
        raise InvalidOption(field, f"is {shown(value)}, which is not text: give a str.")
    if not value.strip():
        raise InvalidOption(field, f"is {shown(value)}, which names nothing: give it at least one character.")
    if not value.isprintable():
        raise InvalidOption(field, f"is {shown(value)}, which has unprintable characters: leave them out.")
    if (size := len(value.encode("utf-8", "surrogatepass"))) > limit:
        raise InvalidOption(field, f"has {size} bytes of UTF-8: {limit} at most.")
    return value
