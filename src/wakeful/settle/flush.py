"""Flushing: a set is written in one statement; a bad row in it is found by halving, and fails alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from wakeful.values.errors import WakefulError
from wakeful.values.settlement import Ending, Refusal, Settlement

S = TypeVar("S")

# Classes of SQLSTATE that tell of a conflict, a lack, a lock, an operator or a disk.
_NOT_THE_ROW = frozenset(("40", "53", "55", "57", "58"))


def is_the_rows_fault(error: Exception) -> bool:
    """Whether one of the rows cannot be written; otherwise the whole flush is repeated later."""
    if isinstance(error, WakefulError):
        return False
    return str(getattr(error, "sqlstate", None) or "")[:2] not in _NOT_THE_ROW


async def flush_halving(
    rows: Sequence[S],
    write: Callable[[Sequence[S]], Awaitable[list[Refusal]]],
    quarantine: Callable[[S, Exception], None],
) -> list[Refusal]:
    """Write `rows`; those that cannot be written are handed to `quarantine`, and block none of the others."""
    try:
        return await write(rows)
    # Whatever the server holds against one of the rows.
    except Exception as error:
        if not is_the_rows_fault(error):
            raise
        if len(rows) == 1:
            quarantine(rows[0], error)
            return []
    middle = len(rows) // 2
    first = await flush_halving(rows[:middle], write, quarantine)
    return first + await flush_halving(rows[middle:], write, quarantine)


def in_place_of(bad: Settlement, error: Exception) -> Ending:
    """What is written for a settlement that could not be: a failure that says so, with no further start.

    The handler has run; running it again would only meet the same fault.
    """
    return Ending(
        bad.id,
        bad.epoch,
        "failed",
        "unsettleable",
        f"its outcome could not be stored ({type(error).__name__})",
    )
