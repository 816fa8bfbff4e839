"""Pooled connections: opened when first asked for, silent while idle, closed with the app."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from wakeful.database.connect import configure, connect, connection_options
from wakeful.database.notices import listen_to
from wakeful.values.errors import DatabaseUnavailable

Connection = psycopg.Connection[tuple[Any, ...]]
Check = Callable[[Connection], None]

WAIT_SECONDS = 30.0

# A forked child must not touch its parent's sockets or threads, and a pool that is collected does both.
_abandoned: list[ConnectionPool[Any]] = []

# One that is still open when the interpreter ends waits ten seconds, in vain, for threads that run no more.
_open: WeakSet[Pool] = WeakSet()


class Pool:
    """Sync connections in autocommit mode, for any number of threads. A forked child opens its own."""

    def __init__(
        self, dsn: str, *, size: int = 4, wait_seconds: float = WAIT_SECONDS, check: Check | None = None
    ) -> None:
        """`check` is run once, on a connection of its own, before the first one is handed out."""
        self._dsn = dsn
        self._size = size
        self._wait_seconds = wait_seconds
        self._check = check
        self._pool: ConnectionPool[Connection] | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for as long as the block lasts. Waits when all are in use, or the server is away."""
        pool = self._opened()
        conn = self._borrow(pool)
        try:
            yield conn
        finally:
            pool.putconn(conn)

    def close(self) -> None:
        """Close every connection. Idempotent; the next use opens the pool again."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _opened(self) -> ConnectionPool[Connection]:
        if self._pid != os.getpid():
            self._leave_to_parent()
        with self._lock:
            if self._pool is None:
                # A pool retries and keeps the reason to itself: a connection of our own tells it at once.
                with connect(self._dsn) as conn:
                    if self._check:
                        self._check(conn)
                self._pool = self._build()
                self._pool.open()
                _open.add(self)
            return self._pool

    def _build(self) -> ConnectionPool[Connection]:
        return ConnectionPool(
            kwargs=connection_options(self._dsn),
            min_size=0,
            max_size=self._size,
            timeout=self._wait_seconds,
            configure=_configure,
            num_workers=1,
            name="wakeful",
            open=False,
        )

    def _borrow(self, pool: ConnectionPool[Connection]) -> Connection:
        try:
            for _ in range(self._size):
                conn = pool.getconn()
                if is_alive(conn):
                    return conn
                pool.putconn(conn)
            return pool.getconn()
        except PoolTimeout as error:
            raise self._why(error) from error

    def _why(self, error: PoolTimeout) -> DatabaseUnavailable:
        try:
            connect(self._dsn).close()
        except DatabaseUnavailable as reason:
            return reason
        return exhausted(self._size, self._wait_seconds)

    def _leave_to_parent(self) -> None:
        if self._pool is not None:
            _abandoned.append(self._pool)
        self._pool, self._lock, self._pid = None, threading.Lock(), os.getpid()


@atexit.register
def _close_open_ones() -> None:
    for pool in list(_open):
        pool.close()


def _configure(conn: Connection) -> None:
    configure(conn)
    listen_to(conn)


def is_alive(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether the server has not hung up, as far as the socket knows. Sends nothing, never blocks."""
    try:
        # Twice: the first read takes the server's farewell, the second meets the end of the stream.
        conn.pgconn.consume_input()
        conn.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not conn.closed


def exhausted(size: int, wait_seconds: float) -> DatabaseUnavailable:
    """All connections were in use for the whole wait."""
    return DatabaseUnavailable(
        f"All {size} pooled connections were in use for {wait_seconds:g} s. Raise the pool's size."
    )
