"""A handler's annotations as decoders, built once."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NotRequired

import msgspec
from msgspec import inspect as types

from wakeful.payload.plain import from_plain, has_model_equality, is_model_class
from wakeful.payload.signature import Signature
from wakeful.values.errors import PayloadError

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decoders:
    """How payloads of one signature are read.

    `equality_is_doubtful`: a class may compare as equal what is not, so equality does not prove that nothing
    was lost. `holds_datetimes`: a naive one would pass the decoder.
    """

    one: msgspec.json.Decoder[Arguments]
    many: msgspec.json.Decoder[list[Arguments]]
    extra: msgspec.json.Decoder[Arguments]
    equality_is_doubtful: bool
    holds_datetimes: bool


def build_decoders(signature: Signature) -> Decoders:
    """Evaluates the annotations; a PayloadError names the parameter whose type payloads cannot carry."""
    fields: dict[str, Any] = {}
    kinds: list[types.Type] = []
    for name, written in signature.annotations.items():
        hint: Any = signature.resolved(name, written)
        kinds += _inspected(signature, name, hint)
        fields[name] = hint if name in signature.required else NotRequired[hint]
    extra: Any = signature.resolved("**", signature.extra)
    kinds += _inspected(signature, "**", extra)
    build: Any = typing.TypedDict  # The fields are known at run time only.
    whole: Any = build("Arguments", fields)
    return Decoders(
        one=msgspec.json.Decoder(whole, dec_hook=from_plain),
        many=msgspec.json.Decoder(list.__class_getitem__(whole), dec_hook=from_plain),
        extra=msgspec.json.Decoder(dict[str, extra], dec_hook=from_plain),
        equality_is_doubtful=any(_may_overlook(kind) for kind in kinds),
        holds_datetimes=any(_may_be_naive(kind) for kind in kinds),
    )


def _inspected(signature: Signature, name: str, hint: Any) -> list[types.Type]:
    advice = "use JSON types, a dataclass, a msgspec Struct or a pydantic model, or leave it unannotated."
    try:
        kinds = list(_every(types.type_info(hint), set()))
    except (TypeError, NameError) as error:
        raise PayloadError(name, f"of {signature.name} cannot be read from JSON ({error}): {advice}") from error
    for kind in kinds:
        if isinstance(kind, types.CustomType) and kind.cls is not object and not is_model_class(kind.cls):
            raise PayloadError(name, f"of {signature.name} cannot be read from JSON as {kind.cls!r}: {advice}")
    return kinds


def _every(part: object, seen: set[int]) -> Iterator[types.Type]:
    """The types in a type, each once; a class may contain itself."""
    if isinstance(part, tuple):
        for item in part:
            yield from _every(item, seen)
    elif isinstance(part, types.Type | types.Field) and id(part) not in seen:
        seen.add(id(part))
        if isinstance(part, types.Type):
            yield part
        for field in part.__struct_fields__:
            yield from _every(getattr(part, field), seen)


def _may_overlook(kind: types.Type) -> bool:
    """Whether two values of this class may compare as equal though they differ."""
    match kind:
        case types.StructType(cls=cls):
            return cls.__eq__ is not msgspec.Struct.__eq__
        case types.DataclassType(cls=cls) if dataclasses.is_dataclass(cls):
            generated = getattr(cls.__eq__, "__code__", None)
            written_by_hand = generated is not None and generated.co_filename != "<string>"
            return written_by_hand or not all(field.compare for field in dataclasses.fields(cls))
        case types.DataclassType():
            return True
        case types.CustomType(cls=cls):
            return cls is not object and not has_model_equality(cls)
    return False


def _may_be_naive(kind: types.Type) -> bool:
    match kind:
        case types.DateTimeType(tz=tz):
            return tz is not True
        case types.CustomType(cls=cls):
            return cls is not object
    return False
