"""Cheap looks at encoded JSON, at the speed of bytes."""

from __future__ import annotations

import re
from typing import Final

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_NAIVE_DATETIME: Final = re.compile(rb'"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?"')


def nests_deeper(text: bytes, levels: int) -> bool:
    """Whether arrays and objects nest deeper than `levels` in this JSON text."""
    if text.count(b"{") + text.count(b"[") <= levels:
        return False
    brackets = _STRING.sub(b"", text).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(levels):
        # All innermost pairs at once: one pass a level, each at the speed of memory.
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def may_hold_nul(text: bytes) -> bool:
    """False is certain; True may also be a backslash before the letters u0000."""
    return b"\\u0000" in text


def may_hold_naive_datetime(text: bytes | str) -> bool:
    """Whether some string looks like a date and time without an offset."""
    data = text.encode() if isinstance(text, str) else text
    return _NAIVE_DATETIME.search(data) is not None
