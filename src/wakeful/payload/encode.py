"""Values to JSON text that PostgreSQL will take, or a PayloadError that names the field.

msgspec encodes first, and what would arrive is compared with what was sent. Only where they differ, or the
text looks odd, are the values walked one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from wakeful.payload.faults import MOST_LEVELS, UNKNOWN, first_fault
from wakeful.payload.paths import Step, joined, member
from wakeful.payload.plain import ENCODER
from wakeful.payload.text import may_hold_nul, nests_deeper
from wakeful.values.errors import PayloadError

DEFAULT_LIMIT_BYTES: Final = 262_144

_ANY: Final = msgspec.json.Decoder()


def encode(arguments: Mapping[str, object], *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> str:
    """JSON text for a task whose annotations are not known here. Pure; costs microseconds."""
    return _stored(as_dict(arguments), (), limit_bytes)


def as_dict(arguments: object) -> dict[str, object]:
    """Keyword arguments as a dict; what is no mapping is refused."""
    if isinstance(arguments, dict):
        return arguments
    if isinstance(arguments, Mapping):
        return dict(arguments)
    raise PayloadError("", f"is of type {type(arguments).__name__}: give a mapping of names to values.")


def encode_result(value: object, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> str | None:
    """JSON text for what a handler returned, None for None; a PayloadError's field begins with `result`."""
    return None if value is None else _stored(value, ("result",), limit_bytes)


def _stored(value: object, root: tuple[Step, ...], limit_bytes: int) -> str:
    text = to_text(value, root)
    check_text(text, value, limit_bytes, root)
    try:
        arrives = _ANY.decode(text)
    except msgspec.DecodeError as error:  # A msgspec.Raw is written as it stands.
        raise PayloadError(joined(root), f"is not JSON ({error}): send values, not prepared text.") from error
    if arrives != value or may_hold_nul(text):
        refuse_fault(value, arrives, root)
    return text.decode()


def to_text(value: object, root: tuple[Step, ...] = ()) -> bytes:
    """Encodes; what msgspec cannot encode is told by its path."""
    try:
        return ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        refuse_fault(value, value, root)
        refuse_fault(value, UNKNOWN, root)
        raise PayloadError(joined(root), f"cannot be encoded as JSON ({error}): send plain values.") from error


def check_text(text: bytes, value: object, limit_bytes: int, root: tuple[Step, ...] = ()) -> None:
    """Refuses text that is too large or nests too deeply."""
    if len(text) > limit_bytes:
        raise PayloadError(
            _largest(value, root),
            f"makes {len(text)} bytes of JSON, over the limit of {limit_bytes}: "
            "store the data elsewhere and send a reference to it, or raise WAKEFUL_PAYLOAD_LIMIT.",
        )
    if nests_deeper(text, MOST_LEVELS):
        refuse_fault(value, value, root)
        raise PayloadError(joined(root), f"nests deeper than {MOST_LEVELS} levels: flatten it.")


def refuse_fault(value: object, arrives: object, root: tuple[Step, ...] = ()) -> None:
    """Raises for the first value that cannot be stored; returns if the walk finds none."""
    fault = first_fault(value, arrives, root)
    if fault is not None:
        raise PayloadError(fault.field, fault.problem)


def _largest(value: object, root: tuple[Step, ...]) -> str:
    if not isinstance(value, dict) or not value:
        return joined(root)
    return member(joined(root), str(max(value, key=lambda key: len(ENCODER.encode(value[key])))))
