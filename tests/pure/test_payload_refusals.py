"""What cannot be stored is refused at enqueue, by a PayloadError that names the field."""

from __future__ import annotations

import enum
import pickle
from collections import UserDict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.payload import PayloadCodec, encode, encode_many, encode_result
from wakeful.payload.text import nests_deeper
from wakeful.values.errors import PayloadError

NAN = float("nan")
NAIVE = datetime(2024, 1, 1)


class Odd:
    pass


class Sign(enum.Enum):
    NUL = "\x00"
    ODD = Odd()


def loose(value: Any) -> None: ...


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


looped: dict[str, Any] = {}
looped["again"] = [looped]


@pytest.mark.parametrize(
    ("value", "field", "problem"),
    [
        ("a\x00b", "value", "NUL character"),
        ({"a\x00": 1}, "value", "key that contains a NUL"),
        ([0, {"k": "\x00"}], "value[1].k", "NUL character"),
        (Sign.NUL, "value", "NUL character"),
        ("\ud800", "value", "lone surrogate"),
        ({"\udfff": 1}, "value", "key that contains a lone surrogate"),
        ({"a": ["x", "\ud800"]}, "value.a[1]", "lone surrogate"),
        (NAN, "value", "is nan"),
        ([1.0, [float("inf")]], "value[1][0]", "is inf"),
        ({"a b": -float("inf")}, "value['a b']", "is -inf"),
        (Decimal("NaN"), "value", "no amount"),
        ([Decimal("Infinity")], "value[0]", "no amount"),
        (NAIVE, "value", "without a time zone"),
        ({"when": [NAIVE]}, "value.when[0]", "without a time zone"),
        (datetime(1912, 1, 1, tzinfo=ZoneInfo("Africa/Abidjan")), "value", "odd seconds"),
        ({1: "a"}, "value", "key 1, which would arrive as text"),
        ({"a": {None: 1}}, "value.a", "key None"),
        ({"a": [{(1, 2): 1}]}, "value.a[0]", "key (1, 2)"),
        ({1.5: 1}, "value", "key 1.5"),
        (Odd(), "value", "Odd, which is not JSON"),
        ({"a": [1, {"b": Odd()}]}, "value.a[1].b", "Odd, which is not JSON"),
        ([Sign.ODD], "value[0]", "Sign, which is not JSON"),
        (range(3), "value", "builtins.range"),
        (lambda: None, "value", "builtins.function"),
        (1j, "value", "builtins.complex"),
        (Odd, "value", "builtins.type"),
        (msgspec.UNSET, "value", "UnsetType"),
        pytest.param([10**5000], "value[0]", "more than 4300 digits", id="huge"),
        (nested(64), "value[0][0][0]", "nests deeper than 64"),
        (nested(5000), "value[0][0][0]", "nests deeper than 64"),
        (looped, "value.again[0].again", "contains itself"),
        ("x" * 262_144, "value", "makes 262156 bytes of JSON, over the limit of 262144"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named_by_its_path(value: Any, field: str, problem: str) -> None:
    codec = PayloadCodec.of(loose)
    for attempt in (
        lambda: codec.encode(codec.bind(value)),
        lambda: encode({"value": value}),
        lambda: encode_many(codec, [{"value": value}]),
    ):
        with pytest.raises(PayloadError) as refused:
            attempt()
        assert refused.value.field.removeprefix("[0].") == field
        assert problem in refused.value.problem
        assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301


@pytest.mark.parametrize(
    "value",
    [
        "\\u0000",
        "null",
        "2024-01-01T00:00:00",
        "[" * 100,
        '"{' * 100,
        nested(63),
        [nested(30), nested(40), nested(62)],
        {"": None},
        None,
        2**200,
        -(2**64),
        "\x7f\x1f\u2028",
        "x" * 262_132,
    ],
    ids=range(13),
)
def test_what_only_looks_suspicious_passes_as_it_is(value: Any) -> None:
    codec = PayloadCodec.of(loose)
    assert codec.decode(codec.encode(codec.bind(value))) == {"value": value}
    assert codec.decode(encode({"value": value})) == {"value": value}


class Text(str):
    pass


class Whole(int):
    pass


class Real(float):
    pass


class Moment(datetime):
    pass


class Day(date):
    pass


class Span(timedelta):
    pass


class Amount(Decimal):
    pass


@pytest.mark.parametrize(
    ("value", "arrived"),
    [
        (Text("x"), "x"),
        (Whole(5), 5),
        (Real(0.5), 0.5),
        (Moment(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00Z"),
        (Day(2024, 1, 1), "2024-01-01"),
        (Span(days=1), "P1D"),
        (Amount("1.10"), "1.10"),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (UserDict({"a": 1}), {"a": 1}),
        (deque([1]), [1]),
        (time(12, 0), "12:00:00"),
    ],
)
def test_relatives_of_plain_values_pass_as_what_they_are(value: Any, arrived: object) -> None:
    codec = PayloadCodec.of(loose)
    assert codec.decode(codec.encode(codec.bind(value))) == {"value": arrived}


@pytest.mark.parametrize("value", [Text("\x00"), Real("nan"), Moment(2024, 1, 1), UserDict({"a": NAN}), deque([NAN])])
def test_relatives_of_plain_values_are_checked_as_well(value: Any) -> None:
    with pytest.raises(PayloadError) as refused:
        encode({"value": value})
    assert refused.value.field.startswith("value")


@dataclass
class Line:
    price: Decimal
    weight: float | None = None
    extras: dict[str, int] = field(default_factory=dict)


@dataclass
class Order:
    lines: list[Line]
    placed: datetime | None = None
    anything: Any = None


class Item(msgspec.Struct):
    name: str
    weight: float | None = None
    seen: datetime | None = None


def ship(order: Order, items: list[Item] | None = None, by_id: dict[int, Item] | None = None) -> None: ...


def with_line(**values: Any) -> dict[str, Any]:
    good = Line(Decimal(1))
    return {"order": Order([good, good, good, Line(**{"price": Decimal(2), **values})])}


@pytest.mark.parametrize(
    ("arguments", "field", "problem"),
    [
        (with_line(price="much"), "order.lines[3].price", "does not fit ship"),
        (with_line(price=NAN), "order.lines[3].price", "is nan"),
        (with_line(price=Odd()), "order.lines[3].price", "not JSON"),
        (with_line(price=None), "order.lines[3].price", "expected `decimal`"),
        (with_line(weight=NAN), "order.lines[3].weight", "is nan"),
        (with_line(weight="heavy"), "order.lines[3].weight", "expected `float"),
        (with_line(extras={"a": 1, "the key": "x"}), "order.lines[3].extras['the key']", "expected `int`"),
        (with_line(extras={1: 1}), "order.lines[3].extras", "key 1"),
        ({"order": Order([], NAIVE)}, "order.placed", "without a time zone"),
        ({"order": Order([], anything=[NAIVE])}, "order.anything[0]", "without a time zone"),
        ({"order": Order([], anything={"a": NAN})}, "order.anything.a", "is nan"),
        ({"order": {"placed": None}}, "order.lines", "missing"),
        ({"order": 5}, "order", "expected `object`, got `int`"),
        ({"order": Order([]), "items": [Item("a"), Item("b", NAN)]}, "items[1].weight", "is nan"),
        ({"order": Order([]), "items": [Item("a", None, NAIVE)]}, "items[0].seen", "without a time zone"),
        ({"order": Order([]), "items": [Item("\x00")]}, "items[0].name", "NUL"),
        ({"order": Order([]), "items": [Item("\ud800")]}, "items[0].name", "surrogate"),
        ({"order": Order([]), "by_id": {7: Item("a"), 8: {"name": 9}}}, "by_id['8'].name", "expected `str`"),
        ({"order": Order([]), "by_id": {"x": Item("a")}}, "by_id", "expected `int`"),
        ({"order": Order([]), "by_id": {1: Item("a", NAN)}}, "by_id['1'].weight", "is nan"),
    ],
)
def test_a_value_that_does_not_fit_its_annotation_is_named_by_its_path(
    arguments: dict[str, Any], field: str, problem: str
) -> None:
    codec = PayloadCodec.of(ship)
    with pytest.raises(PayloadError) as refused:
        codec.encode(codec.bind(**arguments))
    assert refused.value.field == field
    assert problem in refused.value.problem


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        ('{"order": {"lines": [{"price": true}]}}', "order.lines[0].price", "expected `decimal`"),
        ("{}", "order", "missing"),
        ("[]", "", "expected `object`, got `array`"),
        ("{", "", "is not JSON"),
        ('{"order": {"lines": []}, "nope": 1}', "nope", "not an argument of ship"),
        ('{"order": {"lines": [], "placed": "2024-01-01T00:00:00"}}', "order.placed", "without a time zone"),
        ('{"order": {"lines": []}, "by_id": {"1": {"name": 5}}}', "by_id['1'].name", "expected `str`"),
    ],
)
def test_a_stored_payload_that_does_not_fit_the_handler_is_refused_by_path(text: str, field: str, problem: str) -> None:
    for form in (text, text.encode()):
        with pytest.raises(PayloadError) as refused:
            PayloadCodec.of(ship).decode(form)
        assert refused.value.field == field
        assert problem in refused.value.problem


def test_no_refusal_shows_the_values_themselves() -> None:
    codec = PayloadCodec.of(ship)
    for arguments in (with_line(weight="hunter2"), {"order": "hunter2"}, with_line(price="hunter2")):
        with pytest.raises(PayloadError) as refused:
            codec.encode(codec.bind(**arguments))
        assert "hunter2" not in str(refused.value)


def test_the_limit_is_in_bytes_of_json_and_names_the_largest_argument_and_the_setting() -> None:
    assert encode({"a": "é"}, limit_bytes=10) == '{"a":"é"}'
    with pytest.raises(PayloadError, match=r"`b` makes 30 bytes .* limit of 10: .*WAKEFUL_PAYLOAD_LIMIT"):
        encode({"a": 1, "b": "0123456789", "c": 2}, limit_bytes=10)


@dataclass
class Careless:
    weight: float | None

    def __eq__(self, other: object) -> bool:
        return True


@dataclass
class Partial:
    weight: float | None = field(compare=False)


class CarelessStruct(msgspec.Struct):
    weight: float | None

    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize("kind", [Careless, Partial, CarelessStruct])
def test_a_class_that_compares_carelessly_does_not_hide_a_loss(kind: Any) -> None:
    def handler(it: Any) -> None: ...

    handler.__annotations__["it"] = kind
    codec = PayloadCodec.of(handler)
    assert codec.encode(codec.bind(kind(None))) == '{"it":{"weight":null}}'
    with pytest.raises(PayloadError, match=r"`it.weight` is nan"):
        codec.encode(codec.bind(kind(NAN)))
    with pytest.raises(PayloadError, match=r"`\[1\].it.weight` is nan"):
        encode_many(codec, [{"it": kind(None)}, {"it": kind(NAN)}])


def test_prepared_json_that_is_none_is_refused() -> None:
    assert encode({"a": msgspec.Raw(b"[1]")}) == '{"a":[1]}'
    with pytest.raises(PayloadError, match="is not JSON"):
        encode({"a": msgspec.Raw(b"[1")})


def test_a_result_is_named_as_one() -> None:
    assert encode_result(None) is None
    assert encode_result(0) == "0"
    assert encode_result({"rows": (1, 2)}) == '{"rows":[1,2]}'
    with pytest.raises(PayloadError, match=r"`result.rows\[1\]` is nan"):
        encode_result({"rows": [1, NAN]})
    with pytest.raises(PayloadError, match=r"`result` is nan"):
        encode_result(NAN)
    with pytest.raises(PayloadError, match=r"`result` makes 12 bytes"):
        encode_result("0123456789", limit_bytes=5)


brackets = st.recursive(
    st.just('[{]}\\"'), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
)


def depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@given(brackets)
def test_depth_is_read_from_the_text_whatever_is_in_its_strings(value: object) -> None:
    text = msgspec.json.encode(value)
    assert [nests_deeper(text, levels) for levels in range(8)] == [depth(value) > levels for levels in range(8)]
