"""Finds the one value in a payload that cannot be stored, and says where it is.

A walk in Python over every value: only taken when the fast checks say that something may be wrong.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Iterator, Mapping, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from wakeful.payload.paths import Step, joined
from wakeful.payload.plain import ENCODER, is_model
from wakeful.values.wording import shown

MOST_LEVELS: Final = 64

_MOST_INTEGER_BITS: Final = 14_284  # 4300 decimal digits, the most that Python reads back.
_LEAVES: Final = (str, int, float, Decimal, date, time, timedelta, UUID, bytes, bytearray, memoryview)

_MINUTE: Final = timedelta(minutes=1)
UNKNOWN: Final = object()
"""What arrives where nobody says what it will be: then keys that are not text are faults."""


class Fault(NamedTuple):
    """The path to a value, and what is wrong with it, from the verb on to what to do."""

    field: str
    problem: str


def first_fault(value: object, arrives: object = UNKNOWN, root: tuple[Step, ...] = ()) -> Fault | None:
    """The first fault in document order, or None. `arrives` is what the handler would get, where known."""
    return _fault(value, arrives, root, 1)


def _fault(value: object, arrives: object, path: tuple[Step, ...], level: int) -> Fault | None:
    if value is None:
        return None
    if isinstance(value, enum.Enum):
        return _unencodable(value, path) or _fault(value.value, arrives, path, level)
    if isinstance(value, _LEAVES):
        problem = _leaf_problem(value)
        return None if problem is None else Fault(joined(path), problem)
    children = _children(value, arrives)
    if children is None:
        return _unencodable(value, path)
    if level > MOST_LEVELS:
        problem = f"nests deeper than {MOST_LEVELS} levels or contains itself: flatten it."
        return Fault(joined(path[:4]), problem)
    if isinstance(value, Mapping) and (problem := _key_problem(value, arrives)):
        return Fault(joined(path), problem)
    for step, child, arrived in children:
        fault = _fault(child, arrived, (*path, step), level + 1)
        if fault is not None:
            return fault
    return _unencodable(value, path) if is_model(value) else None


def _leaf_problem(value: object) -> str | None:
    match value:
        case str():
            return text_problem(value)
        case bool():
            return None
        case int() if value.bit_length() > _MOST_INTEGER_BITS:
            return "is an integer of more than 4300 digits: send it as text."
        case float() if not isfinite(value):
            return f"is {value}, which JSON cannot hold: send None or text instead."
        case Decimal() if not value.is_finite():
            return f"is Decimal {value}, which is no amount: send None or text instead."
        case datetime() if value.utcoffset() is None:
            return "is a datetime without a time zone: make it aware, as in datetime.now(timezone.utc)."
        case datetime() | time() if (value.utcoffset() or _MINUTE) % _MINUTE:
            return "has a time zone of odd seconds, which JSON's dates lack: convert it to UTC."
    return None


def text_problem(text: str) -> str | None:
    """Why PostgreSQL cannot hold this text, or None."""
    if "\x00" in text:
        return "contains a NUL character, which PostgreSQL cannot hold: remove it."
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is not text: decode the bytes it came from correctly."
    return None


def _key_problem(value: Mapping[Any, object], arrives: object) -> str | None:
    for key in value:
        if isinstance(key, str):
            problem = text_problem(key)
            if problem is not None:
                return f"has a key that {problem}"
        elif not (isinstance(arrives, Mapping) and key in arrives):
            return f"has the key {shown(key)}, which would arrive as text: use str keys, or annotate them."
    return None


def _unencodable(value: object, path: tuple[Step, ...]) -> Fault | None:
    try:
        ENCODER.encode(value)
    except (TypeError, ValueError, AttributeError) as error:
        advice = "send plain values, a dataclass, a msgspec Struct or a pydantic model."
        kind = type(value)
        reason = "" if str(error).startswith("Encoding objects of type") else f" ({error})"
        return Fault(joined(path), f"is a {kind.__module__}.{kind.__qualname__}, which is not JSON{reason}: {advice}")
    return None


def _children(value: object, arrives: object) -> Iterator[tuple[Step, object, object]] | None:
    """The values one level down, with their steps and what arrives in their places; None for a leaf."""
    if isinstance(value, Mapping):
        return ((_key(key), item, _at(arrives, key)) for key, item in value.items())
    if isinstance(value, list | tuple | deque):
        return ((index, item, _at(arrives, index)) for index, item in enumerate(value))
    if isinstance(value, Set):
        return ((index, item, UNKNOWN) for index, item in enumerate(value))
    names = _field_names(value)
    if names is None:
        return None
    return ((name, getattr(value, name, None), getattr(arrives, name, UNKNOWN)) for name in names)


def _key(key: object) -> str:
    return key if isinstance(key, str) else shown(key)


def _at(arrives: object, key: Any) -> object:
    if isinstance(arrives, Mapping):
        return arrives.get(key, UNKNOWN)
    if isinstance(arrives, list | tuple) and isinstance(key, int) and key < len(arrives):
        return arrives[key]
    return UNKNOWN


def _field_names(value: object) -> tuple[str, ...] | None:
    if isinstance(value, msgspec.Struct):
        return tuple(name for name in value.__struct_fields__ if getattr(value, name) is not msgspec.UNSET)
    if is_model(value):
        return (*type(value).model_fields, *(value.model_extra or ()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in dataclasses.fields(value))
    attrs = getattr(type(value), "__attrs_attrs__", None)
    return None if attrs is None else tuple(attribute.name for attribute in attrs)
