"""Statements on connections that belong to the caller, inside the caller's own transaction.

Nothing here commits, rolls back or closes. A connection in autocommit mode, outside a transaction, commits
each statement at once: that is what its owner asked for. Each stack has a file of its own, imported when a
connection of that stack is met, so nobody needs what they do not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TypeVar, cast

from wakeful.database.foreign.stack import Stack
from wakeful.statements.statement import Statement
from wakeful.values.errors import InvalidOption

T = TypeVar("T")

_STACKS = ("psycopg", "asyncpg", "sqlalchemy", "django")


def run_on(conn: object, statement: Statement[T]) -> T:
    """Run it on a psycopg Connection, an SQLAlchemy Session or Connection, or Django's connection."""
    return _stack(conn).run(conn, statement)


async def arun_on(conn: object, statement: Statement[T]) -> T:
    """Run it on a psycopg AsyncConnection, an asyncpg Connection, or SQLAlchemy's async session."""
    return await _stack(conn).arun(conn, statement)


def _stack(conn: object) -> Stack:
    # Subclasses (SQLModel's Session, a traced psycopg Connection) are known by the base that they come from.
    for base in type(conn).__mro__:
        root = base.__module__.partition(".")[0]
        if root in _STACKS:
            return cast(Stack, import_module(f"wakeful.database.foreign.{root}"))
    raise InvalidOption(
        "conn",
        f"is {_article(type(conn))}. Pass a psycopg, asyncpg, SQLAlchemy or Django connection, or none.",
    )


def _article(kind: type) -> str:
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
