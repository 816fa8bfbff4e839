"""A handler's codec: binds as a call would, and gives back what was sent, typed."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.payload import PayloadCodec, encode, encode_many
from wakeful.values.errors import PayloadError

if TYPE_CHECKING:
    from collections import Counter as OnlyForTheTypeChecker


class Context:
    """Stands for the class whose parameter the worker fills."""


def is_context(annotation: object) -> bool:
    return annotation is Context or annotation == "OnlyForTheTypeChecker"


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict, total=False):
    retries: int


@dataclass
class Line:
    price: Decimal
    count: int = 1


@dataclass
class Order:
    lines: list[Line]
    placed: datetime | None = None
    tags: set[str] = field(default_factory=set)


class Node(msgspec.Struct, rename="camel"):
    node_name: str
    children: list[Node] = []


def everything(
    flag: bool,
    number: int,
    ratio: float,
    text: str,
    maybe: str | None,
    moment: datetime,
    day: date,
    clock: time,
    span: timedelta,
    id: UUID,
    amount: Decimal,
    colour: Colour,
    level: Level,
    names: set[str],
    fixed: frozenset[int],
    pair: tuple[int, str],
    many: tuple[int, ...],
    blob: bytes,
    point: Point,
    options: Options,
    order: Order,
    node: Node,
    by_number: dict[int, str],
    by_day: dict[date, int],
    sequence: Sequence[int],
    mapping: Mapping[str, Decimal],
    choice: Literal["a", "b"],
    positive: Annotated[int, msgspec.Meta(gt=0)],
    anything: object,
    loose: Any,
) -> None: ...


sent: dict[str, Any] = {
    "flag": True,
    "number": 2**80,
    "ratio": 0.1,
    "text": 'é😀\n"\\',
    "maybe": None,
    "moment": datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "day": date(2024, 2, 29),
    "clock": time(23, 59, 59),
    "span": timedelta(days=3, microseconds=7),
    "id": UUID(int=5),
    "amount": Decimal("1.10"),
    "colour": Colour.RED,
    "level": Level.HIGH,
    "names": {"a", "b"},
    "fixed": frozenset({1, 2}),
    "pair": (1, "x"),
    "many": (1, 2, 3),
    "blob": b"\x00\xff",
    "point": Point(1, 2),
    "options": {"retries": 3},
    "order": Order([Line(Decimal("9.99")), Line(Decimal(1), 2)], datetime(2024, 1, 1, tzinfo=UTC), {"new"}),
    "node": Node("root", [Node("leaf")]),
    "by_number": {1: "a", -2: "b"},
    "by_day": {date(2024, 1, 1): 1},
    "sequence": [1, 2],
    "mapping": {"a": Decimal("0.5")},
    "choice": "a",
    "positive": 1,
    "anything": {"a": [1, None, {"b": 1.5}]},
    "loose": [True, "x", {}],
}


def test_every_type_arrives_as_it_was_sent() -> None:
    codec = PayloadCodec.of(everything)
    codec.resolve()
    arrived = codec.decode(codec.encode(codec.bind(**sent)))
    assert arrived == sent
    assert {name: type(value) for name, value in arrived.items()} == {name: type(value) for name, value in sent.items()}


def test_unannotated_parameters_get_plain_json() -> None:
    def handler(a, b=None):  # type: ignore[no-untyped-def]
        ...

    codec = PayloadCodec.of(handler)
    bound = codec.bind((1, 2), b={"id": UUID(int=5), "at": datetime(2024, 1, 1, tzinfo=UTC), "o": Line(Decimal("1.5"))})
    assert codec.decode(codec.encode(bound)) == {
        "a": [1, 2],
        "b": {
            "id": "00000000-0000-0000-0000-000000000005",
            "at": "2024-01-01T00:00:00Z",
            "o": {"price": "1.5", "count": 1},
        },
    }


def send(to: str, subject: str = "hello", *, urgent: bool = False) -> None: ...


def test_arguments_bind_as_in_a_call_and_defaults_stay_with_the_handler() -> None:
    codec = PayloadCodec.of(send)
    assert codec.bind("a@b") == {"to": "a@b"}
    assert codec.bind("a@b", "hi") == {"to": "a@b", "subject": "hi"}
    assert codec.bind("a@b", urgent=True) == codec.bind(to="a@b", urgent=True) == {"to": "a@b", "urgent": True}
    assert codec.bind_mapping({"to": "a@b"}) == {"to": "a@b"}
    assert codec.decode('{"to": "a@b"}') == {"to": "a@b"}


def test_arguments_called_self_and_limit_bytes_are_nothing_special() -> None:
    def handler(self: int, limit_bytes: int, function: int) -> None: ...

    codec = PayloadCodec.of(handler)
    bound = codec.bind(self=1, limit_bytes=2, function=3)
    assert codec.decode(codec.encode(bound)) == {"self": 1, "limit_bytes": 2, "function": 3}


@pytest.mark.parametrize(
    ("args", "kwargs", "field", "problem"),
    [
        ((), {}, "to", "is missing: send needs it"),
        ((), {"subject": "x"}, "to", "is missing"),
        (("a",), {"urgnt": True}, "urgnt", "is not an argument of send, which takes to, subject, urgent"),
        (("a",), {"to": "b"}, "to", "given twice"),
        (("a", "b", True), {}, "", "has 3 positional arguments, but send takes 2"),
    ],
)
def test_arguments_that_a_call_would_refuse_are_refused(
    args: tuple[object, ...], kwargs: dict[str, object], field: str, problem: str
) -> None:
    with pytest.raises(PayloadError, match=problem) as refused:
        PayloadCodec.of(send).bind(*args, **kwargs)
    assert refused.value.field == field


def test_the_context_is_left_out_wherever_it_stands() -> None:
    def first(ctx: Context, a: int) -> None: ...

    def last(a: int, ctx: Context) -> None: ...

    def unresolved(ctx: OnlyForTheTypeChecker[str], a: int) -> None: ...

    def by_name(ctx: OnlyForTheTypeChecker, a: int) -> None: ...  # type: ignore[type-arg]

    for handler in (first, last, by_name):
        codec = PayloadCodec.of(handler, is_context=is_context)
        assert codec.context == "ctx"
        assert codec.bind(5) == {"a": 5}
        with pytest.raises(PayloadError, match=r"`ctx` of .* is filled in by the worker"):
            codec.bind(5, ctx=None)
    assert PayloadCodec.of(unresolved, is_context=is_context).context is None
    assert PayloadCodec.of(first).context is None


def test_keywords_beyond_the_named_ones_arrive_too() -> None:
    def handler(a: int, **others: date) -> None: ...

    codec = PayloadCodec.of(handler)
    bound = codec.bind(1, b=date(2024, 1, 1), c=date(2024, 1, 2))
    assert codec.decode(codec.encode(bound)) == bound
    assert encode_many(codec, [bound, {"a": 2}]) == [codec.encode(bound), '{"a":2}']
    with pytest.raises(PayloadError) as refused:
        codec.encode(codec.bind(1, b=date(2024, 1, 1), c="soon"))
    assert refused.value.field == "c"


def test_parameters_that_have_no_name_in_a_payload_are_refused_at_once() -> None:
    def starred(*ids: int) -> None: ...

    def positional(a: int, /) -> None: ...

    with pytest.raises(PayloadError, match=r"`\*ids` of .*take a list"):
        PayloadCodec.of(starred)
    with pytest.raises(PayloadError, match=r"`a` of .*remove the `/`"):
        PayloadCodec.of(positional)


class Mailer:
    def send(self, to: UUID) -> None: ...

    def __call__(self, to: UUID) -> None: ...

    async def later(self, to: UUID) -> None: ...


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return inner


def identify(to: UUID, note: str) -> None: ...


@pytest.mark.parametrize(
    "handler",
    [
        Mailer().send,
        Mailer(),
        Mailer().later,
        wrapped(Mailer().send),
        functools.partial(identify, note="x"),
        lambda to: None,
    ],
    ids=["method", "object", "coroutine", "wrapped", "partial", "lambda"],
)
def test_anything_that_can_be_called_has_a_codec(handler: Any) -> None:
    codec = PayloadCodec.of(handler)
    arrived = codec.decode('{"to": "00000000-0000-0000-0000-000000000005"}')["to"]
    assert str(arrived) == "00000000-0000-0000-0000-000000000005"
    assert isinstance(
        arrived, str if handler.__class__.__name__ == "function" and handler.__name__ == "<lambda>" else UUID
    )


def test_classes_of_an_inner_scope_are_found_in_the_namespace() -> None:
    @dataclass
    class Local:
        a: int

    def handler(local: Local) -> None: ...

    codec = PayloadCodec.of(handler, namespace=locals())
    assert codec.decode(codec.encode(codec.bind(Local(1)))) == {"local": Local(1)}
    with pytest.raises(PayloadError, match=r"`local` of .*'Local'.*import it at module level"):
        PayloadCodec.of(handler).resolve()


def test_an_annotation_that_json_cannot_become_is_refused_by_parameter() -> None:
    def custom(a: int, path: Context) -> None: ...

    def two_classes(a: Order | Line) -> None: ...

    def nested(a: list[complex]) -> None: ...

    def no_type(a: 5) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(PayloadError, match=r"`a` of .*cannot be read from JSON"):
        PayloadCodec.of(no_type, is_context=is_context).resolve()
    for handler, name in ((custom, "path"), (two_classes, "a"), (nested, "a")):
        with pytest.raises(PayloadError, match="use JSON types, a dataclass") as refused:
            PayloadCodec.of(handler).resolve()
        assert refused.value.field == name


def test_a_bulk_is_encoded_in_order_and_equal_to_one_by_one() -> None:
    codec = PayloadCodec.of(send)
    rows = [{"to": f"{number}@b", "urgent": number % 2 == 0} for number in range(1_234)]
    assert encode_many(codec, iter(rows)) == [codec.encode(codec.bind(**row)) for row in rows]
    assert encode_many(codec, []) == []


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"to": 5}, "[1100].to"),
        ({"too": "x"}, "[1100].to"),
        ({"to": "x", "urgent": None}, "[1100].urgent"),
        ({"to": "x\x00"}, "[1100].to"),
        ({"to": "\ud800"}, "[1100].to"),
        ({"to": "x" * 300_000}, "[1100].to"),
        ({"to": object()}, "[1100].to"),
        ({}, "[1100].to"),
        ({"to": "x", 5: 1}, "[1100].5"),
    ],
)
def test_one_bad_row_of_a_bulk_is_named_by_its_number(bad: Any, field: str) -> None:
    rows: list[Any] = [{"to": "a@b"}] * 1_100 + [bad] + [{"to": "a@b"}] * 5
    with pytest.raises(PayloadError) as refused:
        encode_many(PayloadCodec.of(send), rows)
    assert refused.value.field == field


texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


def loose(value: Any, other: Any = None) -> None: ...


@given(documents)
def test_any_json_value_arrives_as_it_was_sent(value: object) -> None:
    codec = PayloadCodec.of(loose)
    text = codec.encode(codec.bind(value))
    assert codec.decode(text) == {"value": value}
    assert encode({"value": value}) == text
    assert encode_many(codec, [{"value": value}]) == [text]


offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def typed(order: Order, ratios: dict[str, float], moments: list[datetime]) -> None: ...


@given(
    st.builds(
        Order,
        st.lists(st.builds(Line, st.decimals(allow_nan=False, allow_infinity=False), st.integers()), max_size=3),
        st.none() | st.datetimes(timezones=st.just(UTC)),
        st.sets(texts, max_size=3),
    ),
    st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    st.lists(st.datetimes(timezones=offsets), max_size=3),
)
def test_any_typed_value_arrives_as_it_was_sent(
    order: Order, ratios: dict[str, float], moments: list[datetime]
) -> None:
    codec = PayloadCodec.of(typed)
    bound = codec.bind(order, ratios, moments)
    assert codec.decode(codec.encode(bound)) == bound
