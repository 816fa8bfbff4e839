"""What msgspec does not know by itself: subclasses of builtins, and pydantic models."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import msgspec

if TYPE_CHECKING:
    from pydantic import BaseModel


class ModelRefusal(ValueError):
    """A model refused its values; `place` leads from the model to the field that it names."""

    def __init__(self, place: tuple[int | str, ...], problem: str) -> None:
        self.place = place
        super().__init__(problem)


def to_plain(value: object) -> object:
    """The nearest value that msgspec encodes; TypeError where there is none."""
    match value:
        case str():  # Django's SafeString, markupsafe's Markup
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():  # numpy.float64
            return float.__float__(value)
        case datetime():  # pendulum, freezegun
            return datetime.combine(value.date(), value.timetz())
        case date():
            return date(value.year, value.month, value.day)
        case timedelta():
            return timedelta(value.days, value.seconds, value.microseconds)
        case Decimal():
            return Decimal(value)
        case Mapping():
            return dict(value)
        case deque():
            return list(value)
    if is_model(value):
        return value.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def from_plain(kind: type[Any], value: object) -> object:
    """Rebuilds a model. Other custom types do not get here: they are refused when a codec is built."""
    if kind is object:
        return value
    # By way of JSON, so that strict models take text for dates and ids as they do from any other JSON.
    try:
        return kind.model_validate_json(ENCODER.encode(value))
    except ValueError as error:
        raise _refusal(error) from None


def is_model(value: object) -> TypeGuard[BaseModel]:
    """Whether this is a pydantic model; imports nothing, for who has one has imported pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def is_model_class(kind: object) -> bool:
    """Whether this is a class of pydantic models."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def has_model_equality(kind: type[Any]) -> bool:
    """Whether models of this class are compared as pydantic does, field by field."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and kind.__eq__ is pydantic.BaseModel.__eq__


def _refusal(error: ValueError) -> ModelRefusal:
    errors = getattr(error, "errors", None)
    if errors is None:
        return ModelRefusal((), str(error))
    # Without the inputs: a payload may carry what must not be seen in a log.
    first, *others = errors(include_url=False, include_context=False, include_input=False)
    more = f" (and {len(others)} more)" if others else ""
    return ModelRefusal(tuple(first["loc"]), f"{first['msg']}{more}")


ENCODER: Final = msgspec.json.Encoder(enc_hook=to_plain)
