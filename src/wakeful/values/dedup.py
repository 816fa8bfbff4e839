"""The deterministic dedup key, `task::tenant-or-global::sorted-json`: the same bytes from Python and SQL.

The JSON is canonical, so that every producer writes one value in one way. The rules, for whoever implements
them again (SQL has them in `wakeful.canonical_json(jsonb)`):

- no white space; the keys of every object sorted by Unicode code point, which is the order of their UTF-8
  bytes and of collation "C" (JavaScript's default sort compares UTF-16 units, and differs beyond U+FFFF);
- strings with the escapes of `JSON.stringify`: `\\"`, `\\\\`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t`, other
  controls below U+0020 as `\\u00xx` in lower-case hex, everything else as it is;
- numbers as plain decimals: no exponent, no trailing zeros after the point, no point without digits after
  it, no negative zero (`1.0` and `1` are `1`, `1e3` is `1000`, `-0.0` is `0`). A binary float stands for
  its shortest decimal that reads back as the same float.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from wakeful.values.errors import PayloadError
from wakeful.values.wording import shown

# What PostgreSQL's numeric, and so jsonb, can hold.
_DIGITS_BEFORE_POINT: Final = 131_072
_DIGITS_AFTER_POINT: Final = 16_383


def dedup_key(task: str, tenant: str | None, payload: Mapping[str, object] | None = None) -> str:
    """The key under which jobs of this task, tenant and payload are one job. Pure; no payload means `{}`."""
    arguments = {} if payload is None else payload
    return f"{task}::{'global' if tenant is None else tenant}::{canonical_json(arguments)}"


def canonical_json(value: object) -> str:
    """The one way to write this JSON value; a PayloadError names what is not one."""
    try:
        return _write(value, "")
    except RecursionError:
        raise PayloadError("", "nests too deeply or contains itself: flatten it.") from None


def _write(value: object, path: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value, path)
        case int() | float() | Decimal():
            return _number(value, path)
        case Mapping():
            return "{" + ",".join(_members(value, path)) + "}"
        case list() | tuple():
            return "[" + ",".join(_write(item, f"{path}[{index}]") for index, item in enumerate(value)) + "]"
    raise PayloadError(path, f"is a {type(value).__name__}, which is no JSON value: convert it first.")


def _members(value: Mapping[object, object], path: str) -> list[str]:
    texts = {key: item for key, item in value.items() if isinstance(key, str)}
    if len(texts) < len(value):
        odd = next(key for key in value if not isinstance(key, str))
        raise PayloadError(path, f"has the key {shown(odd)}, which is not text: use str keys.")
    return [f"{_text(key, path)}:{_write(texts[key], f'{path}.{key}' if path else key)}" for key in sorted(texts)]


def _text(value: str, path: str) -> str:
    if "\x00" in value:
        raise PayloadError(path, "contains a NUL character, which PostgreSQL cannot hold: remove it.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PayloadError(path, "contains a lone surrogate, which is not text: remove it.") from None
    return json.dumps(value, ensure_ascii=False)


def _number(value: int | float | Decimal, path: str) -> str:
    # By float's own repr: subclasses (numpy.float64) print themselves differently.
    exact = Decimal(float.__repr__(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        raise PayloadError(path, "is not a finite number, which JSON cannot hold: send None or text instead.")
    if not exact:
        return "0"
    # Asked before it is written out: Decimal("1e-999999999") would need a gigabyte.
    fraction_digits = -int(exact.as_tuple().exponent) - len(exact.as_tuple().digits)
    if exact.adjusted() >= _DIGITS_BEFORE_POINT or fraction_digits >= _DIGITS_AFTER_POINT:
        raise PayloadError(path, "is a number out of PostgreSQL's range: send it as text.")
    whole, _, fraction = format(exact, "f").partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > _DIGITS_AFTER_POINT:
        raise PayloadError(path, "has more decimal digits than PostgreSQL holds: round it or send it as text.")
    return f"{whole}.{fraction}" if fraction else whole
