"""Whatever a handler leaves behind can be stored."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.payload import encode_result, sanitise, sanitise_json


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Hostile(dict[str, int]):
    def __iter__(self) -> Any:
        raise KeyError

    items = keys = __iter__


def test_plain_text_stays_as_it_is() -> None:
    text = "Traceback: é😀\n\t"
    assert sanitise(text) == text
    assert sanitise("x") == "x"
    assert sanitise("") == ""


def test_nul_goes_and_lone_surrogates_are_replaced() -> None:
    assert sanitise("a\x00b\ud800c") == "ab\ufffdc"


def test_long_text_is_cut_with_a_mark_and_says_how_long_it_was() -> None:
    cut = sanitise("start" + "é" * 1_000, 100)
    assert cut.startswith("startéé")
    assert cut.endswith("\n[… cut: 2005 bytes in all]")
    assert 95 <= len(cut.encode()) <= 100
    end = sanitise("é" * 1_000 + "the end", 100, keep="end")
    assert end.startswith("[… cut: 2007 bytes in all]\n")
    assert end.endswith("éthe end")


@given(st.text(st.characters()), st.integers(-1, 60), st.sampled_from(["start", "end"]))
def test_any_text_ends_up_storable_and_within_the_limit(text: str, limit: int, keep: Any) -> None:
    clean = sanitise(text, limit, keep=keep)
    assert "\x00" not in clean
    assert len(clean.encode()) <= max(limit, 0)


def test_what_is_no_text_is_told_as_such() -> None:
    assert sanitise(ValueError("a\x00b")) == "ab"
    assert sanitise(None) == "None"
    assert sanitise(Broken()) == "<Broken that cannot be shown>"


@dataclass
class Report:
    rows: list[float]


looped: list[Any] = []
looped.append(looped)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ({"a": [1, 2.5, True, None, "x"]}, {"a": [1, 2.5, True, None, "x"]}),
        ({"a": float("nan"), "b": [float("inf")]}, {"a": "nan", "b": ["inf"]}),
        ("a\x00\ud800", "a\ufffd"),
        ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "None": "b", "(1, 2)": "c"}),
        ((1, deque([2]), {3}), [1, [2], [3]]),
        (Report([1.5]), {"rows": [1.5]}),
        (Report([float("nan")]), {"rows": [None]}),
        (datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00Z"),
        (Broken(), "<Broken that cannot be shown>"),
        ({"a": Broken()}, {"a": "<Broken that cannot be shown>"}),
        ({Broken(): 1}, {"<Broken that cannot be shown>": 1}),
    ],
)
def test_a_result_is_kept_as_near_as_possible(value: object, stored: object) -> None:
    assert json.loads(sanitise_json(value)) == stored


@pytest.mark.parametrize("value", [looped, Hostile(), 10**5000, object(), lambda: 1], ids=range(5))
def test_nothing_makes_it_raise(value: object) -> None:
    assert encode_result(json.loads(sanitise_json(value))) is not None


def test_a_result_that_is_too_large_is_cut() -> None:
    stored = sanitise_json(["\n\x01é" * 1_000], 300)
    assert len(stored.encode()) <= 300
    assert json.loads(stored)["cut"].startswith('["\\n')


values = st.recursive(
    st.none() | st.floats() | st.integers() | st.text(st.characters()) | st.binary() | st.decimals() | st.datetimes(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner) | st.tuples(inner),
    max_leaves=10,
)


@given(values)
def test_any_sanitised_result_can_be_stored(value: object) -> None:
    stored = sanitise_json(value)
    assert encode_result([json.loads(stored)])
