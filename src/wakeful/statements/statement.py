"""One description of a verb, which sync and async drivers run alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T", covariant=True)

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """A single SQL command, its parameters, and what its rows mean.

    `sql` names its parameters `%(name)s`, each with a cast (`%(ids)s::uuid[]`); a literal `%` is `%%`.
    `params` are plain values: UUID, datetime, timedelta, int, float, str, bytes, bool, None, lists of these.
    JSON goes in as str and is cast (`%(payload)s::jsonb`); it comes out as str when the column is cast
    (`payload::text`), which every driver understands in the same way.
    """

    sql: str
    params: Mapping[str, object]
    decode: Callable[[Sequence[Row]], T]


def first_value(rows: Sequence[Row]) -> Any:
    """The only value of the only row."""
    return rows[0][0]


def nothing(rows: Sequence[Row]) -> None:
    """The answer carries nothing that the caller wants."""
