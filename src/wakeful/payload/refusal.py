"""What a decoder refused, as a PayloadError with the field's full path."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from wakeful.payload.paths import Step, followed, joined, split_message
from wakeful.payload.plain import ModelRefusal
from wakeful.values.errors import PayloadError

_MEMBER: Final = re.compile(r"Object (?:missing required|contains unknown) field `(.+)`$")


def decode_refusal(
    error: msgspec.DecodeError, text: str | bytes, decoder: msgspec.json.Decoder[Any], handler: str
) -> PayloadError:
    """The refusal told by path and without any value: a payload may carry what must not be in a log."""
    if not isinstance(error, msgspec.ValidationError):
        return PayloadError("", f"is not JSON ({error}): enqueue it through wakeful, or correct the text.")
    reason, steps = split_message(str(error))
    if None in steps:
        steps = _with_keys(msgspec.json.decode(text), steps, decoder.decode)
    if isinstance(error.__cause__, ModelRefusal):
        steps = [*steps, *error.__cause__.place]
    if found := _MEMBER.search(reason):
        steps = [*steps, found[1]]
        reason = "missing" if "missing" in reason else "unknown"
    return PayloadError(
        joined(steps), f"does not fit {handler} ({_lowered(reason)}): send what its annotations ask for."
    )


def _with_keys(document: Any, steps: list[Step], decode: Callable[[bytes], object]) -> list[Step]:
    """Fills in the keys that msgspec does not tell, by leaving one key at a time in the dict."""
    for index, step in enumerate(steps):
        if step is not None:
            continue
        holder = followed(document, steps[:index])
        members = dict(holder)
        for key, value in members.items():
            holder.clear()
            holder[key] = value
            if _is_refused(document, steps, index, decode):
                steps = [*steps[:index], key, *steps[index + 1 :]]
                break
        else:
            return steps
    return steps


def _is_refused(document: Any, steps: list[Step], index: int, decode: Callable[[bytes], object]) -> bool:
    try:
        decode(msgspec.json.encode(document))
    except msgspec.ValidationError as error:
        return len(split_message(str(error))[1]) > index
    return False


def _lowered(reason: str) -> str:
    return reason[:1].lower() + reason[1:]
