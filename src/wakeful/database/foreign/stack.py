"""What each stack's file offers, and the sentences that they share."""

from __future__ import annotations

from typing import Protocol, TypeVar

from wakeful.statements.statement import Statement
from wakeful.values.errors import InvalidOption

T = TypeVar("T")


class Stack(Protocol):
    """A module that runs statements on the connections of one library."""

    def run(self, conn: object, statement: Statement[T], /) -> T: ...

    async def arun(self, conn: object, statement: Statement[T], /) -> T: ...


def wrong_kind(conn: object, instead: str) -> InvalidOption:
    """The caller passed something of the right library that is not a connection for this verb."""
    return InvalidOption("conn", f"is {type(conn).__qualname__} of {type(conn).__module__}. {instead}")


def closed() -> InvalidOption:
    """The connection is of the right kind, but closed or given back to its pool."""
    return InvalidOption("conn", "is closed. Pass an open connection, inside its transaction.")
