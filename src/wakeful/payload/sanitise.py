"""Makes storable what came out of a handler: error messages, tracebacks, results. Nothing here raises.

A failure that cannot be recorded would keep its job from ever being settled.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Set
from math import isfinite
from typing import Final, Literal

import msgspec

from wakeful.payload.encode import DEFAULT_LIMIT_BYTES
from wakeful.payload.faults import MOST_LEVELS
from wakeful.payload.plain import ENCODER

DEFAULT_TEXT_LIMIT_BYTES: Final = 16_384

_LONGEST_REPR_BYTES: Final = 1_000
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def sanitise(
    text: object, limit_bytes: int = DEFAULT_TEXT_LIMIT_BYTES, *, keep: Literal["start", "end"] = "start"
) -> str:
    """Text that PostgreSQL takes, at most `limit_bytes` of UTF-8, with a mark where it was cut.

    NUL is removed and lone surrogates become U+FFFD. `keep` says which part of a long text matters: a
    traceback's end.
    """
    whole = text if type(text) is str else _told(text)
    if whole.isascii() and "\x00" not in whole and len(whole) <= limit_bytes:
        return whole
    data = _cleaned(whole).encode()
    if len(data) <= limit_bytes:
        return data.decode()
    mark = f"[… cut: {len(data)} bytes in all]"
    room = limit_bytes - len(mark.encode()) - 1
    if room <= 0:
        return data[: max(limit_bytes, 0)].decode(errors="ignore")
    if keep == "end":
        return f"{mark}\n{data[-room:].decode(errors='ignore')}"
    return f"{data[:room].decode(errors='ignore')}\n{mark}"


def sanitise_json(value: object, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> str:
    """JSON text as near to the value as PostgreSQL can hold it.

    NaN, infinities and keys become text, unknown objects their repr, what nests too deeply or contains
    itself "…". A value that is too large becomes `{"cut": "its beginning"}`.
    """
    text = ENCODER.encode(_storable(value, 1))
    if len(text) <= limit_bytes:
        return text.decode()
    # Escaped once more, a byte may take six.
    return ENCODER.encode({"cut": sanitise(text.decode(), (limit_bytes - 10) // 6)}).decode()


def _storable(value: object, level: int) -> object:
    try:
        return _nearest(value, level)
    except Exception:  # Whatever a user's object does here, the job must still be settled.
        return sanitise(value, _LONGEST_REPR_BYTES)


def _nearest(value: object, level: int) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return _cleaned(value)
        case int() | float():
            return value if _is_plain(value) else sanitise(value)
        case Mapping() | list() | tuple() | deque() | Set() if level > MOST_LEVELS:
            return "…"
        case Mapping():
            return {_cleaned(_told(key)): _storable(item, level + 1) for key, item in value.items()}
        case list() | tuple() | deque() | Set():
            return [_storable(item, level + 1) for item in value]
    return _storable(msgspec.json.decode(ENCODER.encode(value)), level)


def _is_plain(value: float) -> bool:
    return value.bit_length() < 10_000 if isinstance(value, int) else isfinite(value)


def _cleaned(text: str) -> str:
    return _LONE_SURROGATE.sub("\ufffd", text.replace("\x00", ""))


def _told(value: object) -> str:
    try:
        return str(value)
    except Exception:  # A user's __str__ may raise anything, also while its exception is being recorded.
        return f"<{type(value).__name__} that cannot be shown>"
