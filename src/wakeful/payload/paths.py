"""Where in a payload something is: `order.lines[3].price`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

Step = str | int | None
"""A key, an index, or None for a key that msgspec does not tell."""

# msgspec ends its sentences with " - at `$.order.lines[3]`", or " - at `key` in `$.order`" for a dict's key.
_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$([^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def member(path: str, step: Step) -> str:
    """The path one step further: `.key`, `[3]`, or `["the key"]` where it is no plain name."""
    if step is None:
        return f"{path}[...]"
    if isinstance(step, int):
        return f"{path}[{step}]"
    if not step.isidentifier():
        return f"{path}[{step!a}]"
    return f"{path}.{step}" if path else step


def joined(steps: Iterable[Step]) -> str:
    """Steps as one path."""
    path = ""
    for step in steps:
        path = member(path, step)
    return path


def split_message(message: str) -> tuple[str, list[Step]]:
    """msgspec's sentence without its place, and the place as steps."""
    found = _PLACE.search(message)
    if found is None:
        return message, []
    return message[: found.start()], [_step(name, index) for name, index in _STEP.findall(found[1])]


def followed(document: Any, steps: Sequence[Step]) -> Any:
    """What the steps lead to in a decoded JSON document."""
    for step in steps:
        document = document[step]
    return document


def _step(name: str, index: str) -> Step:
    if name:
        return name
    return None if index == "..." else int(index)
