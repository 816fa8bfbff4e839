"""Sessions on a test's database: plain psycopg, SQL functions called by name, threads that really wait."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from wakeful.edges.testing import clock

Session: TypeAlias = psycopg.Connection[dict[str, Any]]

STALE, DUPLICATE, INVALID, MISSING, REFUSED, LAPSED = ("WF001", "WF002", "WF003", "WF004", "WF005", "WF006")


@contextmanager
def session(dsn: str) -> Iterator[Session]:
    """A connection in autocommit mode whose rows are dictionaries."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as conn:
        yield conn


@contextmanager
def sessions(dsn: str, count: int) -> Iterator[list[Session]]:
    """As many connections, each of its own."""
    opened = [psycopg.connect(dsn, autocommit=True, row_factory=dict_row) for _ in range(count)]
    try:
        yield opened
    finally:
        for conn in opened:
            conn.close()


def query(db: Session, statement: str, *params: object) -> list[dict[str, Any]]:
    """The rows of a statement."""
    return db.execute(statement.encode(), params or None).fetchall()


def scalar(db: Session, statement: str, *params: object) -> Any:
    """The only value of a statement's only row."""
    [row] = query(db, statement, *params)
    [value] = row.values()
    return value


def call(db: Session, function: str, **arguments: object) -> list[dict[str, Any]]:
    """The rows of a function of the schema, its arguments given by name; dictionaries travel as jsonb."""
    named = [sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in sorted(arguments)]
    statement = sql.SQL("select * from wakeful.{}({})").format(sql.Identifier(function), sql.SQL(", ").join(named))
    sent = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in arguments.items()}
    return db.execute(statement, sent).fetchall()


def value(db: Session, function: str, **arguments: object) -> Any:
    """What a function of the schema returns that returns one value."""
    [row] = call(db, function, **arguments)
    [answer] = row.values()
    return answer


@contextmanager
def refusal(sqlstate: str, match: str | None = None) -> Iterator[None]:
    """The block ends in a server's error with this SQLSTATE."""
    with pytest.raises(psycopg.Error, match=match) as caught:
        yield
    assert caught.value.sqlstate == sqlstate, caught.value


def sqlstate_of(act: Callable[[], object]) -> str | None:
    """The SQLSTATE that an act is refused with; None when it is not."""
    try:
        act()
    except psycopg.Error as refused:
        return refused.sqlstate
    return None


class Ear:
    """Hears what is sent on the common channel and on those of the given workers."""

    def __init__(self, conn: Session, *workers: UUID) -> None:
        self._conn = conn
        self._end = f"end_{uuid4().hex}"
        for channel in ["wakeful", self._end, *(f"wakeful_{worker.hex}" for worker in workers)]:
            conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    def heard(self, sender: Session) -> list[dict[str, Any]]:
        """Everything sent since the last call; notifications arrive in order, so a mark of ours ends them."""
        sender.execute("select pg_notify(%s, '')", [self._end])
        hints: list[dict[str, Any]] = []
        for notification in self._conn.notifies(timeout=60):
            if notification.channel == self._end:
                return hints
            hints.append(json.loads(notification.payload))
        raise AssertionError("the listener hears nothing")


@contextmanager
def background() -> Iterator[Callable[..., Future[Any]]]:
    """A way to start calls in threads; all of them have ended when the block has."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


def wait_until_blocked(observer: Session, blocked: Session, act: Future[Any] | None = None) -> None:
    """Return once the session waits for a lock of another one, or its act, if that is given, is over."""
    pid = blocked.info.backend_pid

    def met() -> bool:
        over = act is not None and act.done()
        return over or bool(scalar(observer, "select cardinality(pg_blocking_pids(%s)) > 0", pid))

    until(met)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def shift_clock(db: Session, by: str) -> None:
    """Let the queue's clock run ahead by as much more; open sessions follow at once."""
    clock.travel(db, by)


def take_out(db: Session, function: str, pattern: str, instead: str = "") -> None:
    """Make a function of the schema anew without this part of its text, or with another in its place."""
    body = scalar(db, "select pg_get_functiondef(%s::regproc)", f"wakeful.{function}")
    without, count = re.subn(pattern, instead, body)
    assert count, f"{function} does not say {pattern!r}"
    db.execute(without.encode())


def empty(db: Session) -> None:
    """Take away all that a test has left behind, its travels in time included."""
    clock.come_home(db)
    tables = query(
        db,
        "select c.relname from pg_class c where c.relnamespace = 'wakeful'::regnamespace"
        " and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'migration'",
    )
    for table in tables:
        db.execute(sql.SQL("delete from wakeful.{}").format(sql.Identifier(table["relname"])))
