"""Errors of libraries that wrap a driver's: SQLAlchemy keeps it as `orig`, Django as the cause."""

from __future__ import annotations

from collections.abc import Iterator

from wakeful.database.sqlstates import ServerError, translate
from wakeful.values.errors import WakefulError


def translated(error: Exception) -> Exception:
    """Our error for what the driver heard, or the library's own error where that serves the caller better."""
    for cause in _causes(error):
        if ours := _translate(cause):
            return ours
    return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = getattr(cause, "orig", None) or cause.__cause__


def _translate(error: BaseException) -> WakefulError | None:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if state is None:
        return None
    # psycopg (2 and 3) tell the rest in `diag`, asyncpg on the error itself.
    diag = getattr(error, "diag", None)
    return translate(
        ServerError(
            state,
            getattr(diag, "message_primary", None) or getattr(error, "message", None) or str(error),
            getattr(diag, "message_detail", None) or getattr(error, "detail", None),
            getattr(diag, "message_hint", None) or getattr(error, "hint", None),
        )
    )
