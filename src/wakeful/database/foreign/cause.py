"""Errors of libraries that wrap a driver's: SQLAlchemy keeps it as `orig`, Django as the cause."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from wakeful.database import fetch
from wakeful.database.sqlstates import ServerError, translate
from wakeful.values.errors import WakefulError


def translated(error: Exception) -> Exception:
    """Our error for what the driver heard, or the library's own error where that serves the caller better."""
    # The innermost knows the most: adapters in between keep the SQLSTATE and drop DETAIL and HINT.
    for cause in reversed(list(_causes(error))):
        ours = fetch.translated(cause) if isinstance(cause, psycopg.Error) else _translate(cause)
        if isinstance(ours, WakefulError):
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
    # psycopg2 tells the rest in `diag`, asyncpg on the error itself.
    told = getattr(error, "diag", None)
    return translate(
        ServerError(
            state,
            getattr(told, "message_primary", None) or getattr(error, "message", None) or str(error),
            getattr(told, "message_detail", None) or getattr(error, "detail", None),
            getattr(told, "message_hint", None) or getattr(error, "hint", None),
        )
    )
