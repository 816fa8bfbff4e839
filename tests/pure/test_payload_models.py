"""pydantic models as arguments, and how they refuse."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_serializer

from wakeful.payload import PayloadCodec, encode, encode_result
from wakeful.values.errors import PayloadError

NAIVE = datetime(2024, 1, 1)


class Line(BaseModel):
    price: Decimal
    weight: float | None = None


class Order(BaseModel):
    model_config = ConfigDict(strict=True)

    id: UUID
    lines: list[Line] = []
    placed: datetime | None = None
    by_number: dict[int, str] = {}
    kind: str = Field(default="web", alias="orderKind")


class Secret(BaseModel):
    password: str = Field(min_length=20)


def ship(order: Order, others: list[Order] | None = None) -> None: ...


def keep(secret: Secret) -> None: ...


def order(**values: Any) -> Order:
    return Order(id=UUID(int=1), **values)


def test_a_model_arrives_as_the_model_it_was() -> None:
    codec = PayloadCodec.of(ship)
    first = order(placed=datetime(2024, 1, 1, tzinfo=UTC), by_number={1: "a"}, orderKind="shop")
    bound = codec.bind(first, others=[order(lines=[Line(price=Decimal("1.10"))])])
    text = codec.encode(bound)
    assert '"orderKind":"shop"' in text
    assert codec.decode(text) == bound


def test_a_model_for_an_unknown_task_and_as_a_result_is_plain_json() -> None:
    line = Line(price=Decimal("1.10"))
    assert encode({"line": line}) == '{"line":{"price":"1.10","weight":null}}'
    assert encode_result([line]) == '[{"price":"1.10","weight":null}]'


@pytest.mark.parametrize(
    ("arguments", "field", "problem"),
    [
        ({"order": order(placed=NAIVE)}, "order.placed", "without a time zone"),
        (
            {"order": order(lines=[Line(price=Decimal(1), weight=float("nan"))])},
            "order.lines[0].weight",
            "is nan",
        ),
        ({"order": order(orderKind="\x00")}, "order.kind", "NUL"),
        ({"order": Order.model_construct(id="x")}, "order.id", "does not fit ship"),
        (
            {"order": {"id": str(UUID(int=1)), "lines": [{"price": "x"}]}},
            "order.lines[0].price",
            "valid decimal",
        ),
        ({"order": order(), "others": [order(), {"id": 5}]}, "others[1].id", "does not fit ship"),
        ({"order": 5}, "order", "does not fit ship"),
    ],
)
def test_a_model_that_cannot_travel_is_named_down_to_its_field(
    arguments: dict[str, Any], field: str, problem: str
) -> None:
    codec = PayloadCodec.of(ship)
    with pytest.raises(PayloadError) as refused:
        codec.encode(codec.bind(**arguments))
    assert refused.value.field == field
    assert problem in refused.value.problem


def test_a_plain_mapping_is_taken_for_a_model() -> None:
    codec = PayloadCodec.of(ship)
    text = codec.encode(codec.bind({"id": str(UUID(int=1)), "orderKind": "x"}))
    assert codec.decode(text) == {"order": order(orderKind="x")}


def test_what_a_model_refuses_is_not_shown() -> None:
    with pytest.raises(PayloadError, match="at least 20 characters") as refused:
        PayloadCodec.of(keep).decode('{"secret": {"password": "hunter2"}}')
    assert "hunter2" not in str(refused.value)
    assert "https://" not in str(refused.value)


class Unwilling(BaseModel):
    a: int

    @field_serializer("a")
    def refuse(self, value: int) -> int:
        raise ValueError("not today")


def test_a_model_that_cannot_be_dumped_is_named() -> None:
    with pytest.raises(PayloadError, match=r"`it` is a .*Unwilling, which is not JSON .*not today"):
        encode({"it": Unwilling(a=1)})


class Careless(BaseModel):
    weight: float | None

    def __eq__(self, other: object) -> bool:
        return True


def weigh(it: Careless) -> None: ...


def test_a_model_that_compares_carelessly_does_not_hide_a_loss() -> None:
    codec = PayloadCodec.of(weigh)
    with pytest.raises(PayloadError, match=r"`it.weight` is nan"):
        codec.encode(codec.bind(Careless(weight=float("nan"))))


def test_pydantic_is_not_imported_for_who_does_not_use_it() -> None:
    check = "import sys, wakeful.payload as p; p.encode({'a': (1, {2})}); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
