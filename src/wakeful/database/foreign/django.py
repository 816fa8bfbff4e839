"""Django: `django.db.connection`, or `connections["alias"]`, in and out of `transaction.atomic()`."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy

from wakeful.database.foreign.cause import translated
from wakeful.database.foreign.stack import wrong_kind
from wakeful.statements.statement import Statement

T = TypeVar("T")


def run(conn: object, statement: Statement[T]) -> T:
    """Run it through Django's own cursor, so `atomic()`, query logs and test guards all see it."""
    wrapper = _wrapper(conn)
    with wrapper.cursor() as cursor:
        try:
            cursor.execute(statement.sql, dict(statement.params))
            rows = cursor.fetchall() if cursor.description else []
        except Error as error:
            raise translated(error) from error
    return statement.decode(rows)


async def arun(conn: object, statement: Statement[T]) -> T:
    """Django's connections are sync, so this always refuses."""
    raise wrong_kind(conn, "Django's connections are sync: call the sync form inside `sync_to_async`.")


def _wrapper(conn: object) -> Any:
    if not isinstance(conn, BaseDatabaseWrapper | ConnectionProxy):
        raise wrong_kind(conn, "Pass `django.db.connection`, or one of `django.db.connections`.")
    wrapper: Any = conn
    if wrapper.vendor != "postgresql":
        raise wrong_kind(conn, f"Pass a connection to PostgreSQL: this one is to {wrapper.vendor}.")
    return wrapper
