"""Finds what a handler would not get of what is sent: keys that its types have no place for, numbers they cannot hold.

Only walked where what would arrive is not what was sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from wakeful.payload.faults import Fault
from wakeful.payload.paths import Step, joined
from wakeful.payload.plain import is_model


def first_loss(sent: object, arrives: object, path: tuple[Step, ...] = ()) -> Fault | None:
    """The first loss in document order, or None. `sent` is a decoded JSON document, `arrives` what is made of it."""
    if isinstance(sent, dict):
        return _loss_of_members(sent, arrives, path)
    if isinstance(sent, list) and isinstance(arrives, list | tuple) and len(sent) == len(arrives):
        pairs = enumerate(zip(sent, arrives, strict=True))
        return next((found for i, (one, other) in pairs if (found := first_loss(one, other, (*path, i)))), None)
    if isinstance(sent, int) and isinstance(arrives, float) and arrives != sent:
        return Fault(joined(path), f"would arrive as {arrives!r}, which is another number: send it as text.")
    return None


def _loss_of_members(sent: dict[str, Any], arrives: object, path: tuple[Step, ...]) -> Fault | None:
    places = _places(arrives)
    if places is None:
        return None
    if isinstance(arrives, Mapping) and len(places) == len(sent):
        # In the same order, also where keys have become numbers or dates.
        places = dict(zip(sent, places.values(), strict=True))
    for key, value in sent.items():
        place = (*path, key)
        if key in places:
            if found := first_loss(value, places[key], place):
                return found
        else:
            kind = "" if isinstance(arrives, Mapping) else f": {type(arrives).__name__} has no such field"
            return Fault(joined(place), f"would not arrive{kind}. Leave it out, or annotate what is sent.")
    return None


def _places(made: object) -> Mapping[str, object] | None:
    """What can be given for each key that it can be made of; None where that is not known."""
    if isinstance(made, Mapping):
        return made
    if isinstance(made, msgspec.Struct):
        return {field.encode_name: getattr(made, field.name) for field in msgspec.structs.fields(made)}
    if is_model(made):
        return None if made.model_config.get("extra") == "allow" else _places_in_model(made)
    if dataclasses.is_dataclass(made):
        return {field.name: getattr(made, field.name, None) for field in dataclasses.fields(made)}
    return None


def _places_in_model(made: Any) -> dict[str, object] | None:
    places: dict[str, object] = {}
    for name, field in type(made).model_fields.items():
        aliases = [alias for alias in (field.alias, field.validation_alias) if alias is not None]
        if not all(isinstance(alias, str) for alias in aliases):
            # By a path, or one of several.
            return None
        places |= dict.fromkeys([name, *aliases], getattr(made, name))
    return places
