"""The canonical JSON and the dedup key, as far as Python alone can tell (SQL's half: tests/contract)."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from enum import IntEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.values.dedup import canonical_json, dedup_key
from wakeful.values.errors import PayloadError

texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0, "0"),
        (1e21, "1" + "0" * 21),
        (1e-7, "0.0000001"),
        (0.1, "0.1"),
        (5e-324, "0." + "0" * 323 + "5"),
        (Decimal("1.50"), "1.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal("100"), "100"),
        (2**70, str(2**70)),
        (Level.HIGH, "3"),
        (True, "true"),
        (None, "null"),
        ((1, [2]), "[1,[2]]"),
        ('"\\/\b\f\n\r\t\x01\x1f\x7f é😀', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f é😀"'),
        ({"b": 1, "a": {"d": [], "c": {}}}, '{"a":{"c":{},"d":[]},"b":1}'),
        ({"\U00010000": 1, "\uffff": 2, "B": 3, "a": 4}, '{"B":3,"a":4,"\uffff":2,"\U00010000":1}'),
    ],
)
def test_canonical_form(value: object, text: str) -> None:
    assert canonical_json(value) == text


def test_the_key_names_task_and_tenant_or_global() -> None:
    assert dedup_key("mail.send", "acme", {"b": 1, "a": "x"}) == 'mail.send::acme::{"a":"x","b":1}'
    assert dedup_key("mail.send", None, {}) == "mail.send::global::{}"
    assert dedup_key("mail.send", None) == "mail.send::global::{}"


@given(documents, st.randoms(use_true_random=False))
def test_the_order_of_keys_and_the_way_through_json_change_nothing(value: object, chance: random.Random) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text, parse_float=Decimal)) == text
    assert canonical_json(json.loads(json.dumps(shuffled(value, chance)))) == text


@given(documents)
def test_the_payloads_encoder_writes_numbers_of_the_same_value(value: object) -> None:
    assert canonical_json(json.loads(msgspec.json.encode(value), parse_float=Decimal)) == canonical_json(value)


def shuffled(value: object, chance: random.Random) -> object:
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


looped: list[object] = []
looped.append(looped)


@pytest.mark.parametrize(
    ("payload", "field", "problem"),
    [
        ({"a": {"b": [0, float("nan")]}}, "a.b[1]", "finite"),
        ({"a": float("inf")}, "a", "finite"),
        ({"a": Decimal("sNaN")}, "a", "finite"),
        ({"a": Decimal("1e-20000")}, "a", "range"),
        ({"a": Decimal("1e-999999999")}, "a", "range"),
        ({"a": Decimal("1e140000")}, "a", "range"),
        ({"a": Decimal("1." + "1" * 16384)}, "a", "more decimal digits"),
        ({"a": "\x00"}, "a", "NUL"),
        ({"a": "\ud800"}, "a", "surrogate"),
        ({"a\x00": 1}, "", "NUL"),
        ({"a": {1: 2}}, "a", "key 1"),
        ({"a": {1, 2}}, "a", "is a set"),
        ({"a": b"x"}, "a", "is a bytes"),
        ({"a": looped}, "", "nests too deeply"),
    ],
)
def test_what_is_no_json_value_is_refused_by_its_path(payload: Any, field: str, problem: str) -> None:
    with pytest.raises(PayloadError, match=problem) as refused:
        dedup_key("t", None, payload)
    assert refused.value.field == field
