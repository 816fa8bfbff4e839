"""What a handler would silently not get is refused where it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from wakeful.payload import PayloadCodec
from wakeful.values.errors import PayloadError


@dataclass
class Payment:
    amount: int


@dataclass
class CardPayment(Payment):
    card: str


class Note(msgspec.Struct, rename="camel"):
    written_by: str


class SignedNote(Note, rename="camel"):
    signed_at: str = ""


class Model(pydantic.BaseModel):
    user_name: str = pydantic.Field(alias="userName")
    visits: int = 0


class LongModel(Model):
    secret: str = ""


class Open(pydantic.BaseModel, extra="allow"):
    amount: int


class Typed(TypedDict):
    amount: int


def handler(
    payment: Payment | None = None,
    payments: list[Payment] | None = None,
    note: Note | None = None,
    model: Model | None = None,
    open_model: Open | None = None,
    typed: Typed | None = None,
    by_number: dict[int, Payment] | None = None,
    share: float = 0.0,
    at: datetime | None = None,
) -> None: ...


CODEC = PayloadCodec.of(handler)

LOST: list[tuple[dict[str, Any], str]] = [
    ({"payment": CardPayment(5, "4711")}, "payment.card"),
    ({"payment": {"amount": 5, "card": "4711"}}, "payment.card"),
    ({"payments": [Payment(1), CardPayment(5, "4711")]}, "payments[1].card"),
    ({"by_number": {7: CardPayment(5, "4711")}}, "by_number"),
    ({"note": SignedNote("me", "today")}, "note.signedAt"),
    ({"model": LongModel(userName="me", secret="x")}, "model.secret"),
    ({"model": {"userName": "me", "visit": 3}}, "model.visit"),
    ({"typed": {"amount": 5, "card": "4711"}}, "typed.card"),
    ({"share": 2**53 + 1}, "share"),
]


@pytest.mark.parametrize(("sent", "field"), LOST)
def test_what_would_not_arrive_is_named(sent: dict[str, Any], field: str) -> None:
    with pytest.raises(PayloadError, match=r"would (not )?arrive") as caught:
        CODEC.encode(CODEC.bind(**sent))
    assert caught.value.field.startswith(field)


@pytest.mark.parametrize(
    "sent",
    [
        {"payment": Payment(5)},
        {"payment": {"amount": 5}},
        {"payments": ({"amount": 5}, Payment(6))},
        {"by_number": {"7": {"amount": 1}}},
        {"note": {"writtenBy": "me"}},
        {"model": {"userName": "me"}},
        {"model": Model(userName="me", visits=3)},
        {"open_model": {"amount": 5, "more": 1}},
        {"typed": {"amount": 5}},
        {"share": 2**53},
        {"at": "2026-01-01T00:00:00Z"},
    ],
)
def test_what_arrives_in_another_form_is_sent(sent: dict[str, Any]) -> None:
    assert CODEC.decode(CODEC.encode(CODEC.bind(**sent))).keys() == sent.keys()
