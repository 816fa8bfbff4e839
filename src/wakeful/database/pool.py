"""Pooled connections: opened when asked for, by who asks; silent while idle; closed with the app."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any
from weakref import finalize

import psycopg

from wakeful.database.connect import connect
from wakeful.database.notices import listen_to
from wakeful.database.room import Room
from wakeful.database.shelf import Kept, Shelf
from wakeful.values.errors import DatabaseUnavailable

Connection = psycopg.Connection[tuple[Any, ...]]
Check = Callable[[Connection], None]

WAIT_SECONDS = 30.0


class Pool:
    """Sync connections in autocommit mode, for any number of threads. A forked child opens its own."""

    def __init__(
        self, dsn: str, *, size: int = 4, wait_seconds: float = WAIT_SECONDS, check: Check | None = None
    ) -> None:
        """`check` is run once, on the first connection, before it is handed out."""
        self._dsn = dsn
        self._size = size
        self._wait_seconds = wait_seconds
        self._check = check
        self._shelf: Shelf[Connection] | None
        self._end: Callable[[], object] | None
        self._begin()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for as long as the block lasts. Waits when all are in use, or the server is away."""
        shelf, room = self._opened(), self._room
        if not room.acquire(timeout=self._wait_seconds):
            raise exhausted(self._size, self._wait_seconds)
        try:
            kept = shelf.take() or self._connected_again()
            try:
                yield kept.conn
            finally:
                shelf.put(kept)
        finally:
            room.release()

    def close(self) -> None:
        """Close every connection: those in use when they come back. Idempotent; the next use opens it again."""
        end, self._shelf = self._end, None
        if end is not None:
            end()

    def _begin(self) -> None:
        self._room = Room(self._size)
        self._lock = threading.Lock()
        self._failures = 0
        self._failure: Exception | None = None
        self._shelf = None
        self._end = None
        self._pid = os.getpid()

    def _opened(self) -> Shelf[Connection]:
        if self._pid != os.getpid():
            self._begin()
        failures = self._failures
        with self._lock:
            if self._shelf is None:
                if self._failure is not None and self._failures > failures:
                    # It failed for who came first while this one waited: trying one after the other takes for ever.
                    raise copy(self._failure)
                self._shelf = self._first_shelf()
            return self._shelf

    def _first_shelf(self) -> Shelf[Connection]:
        # The first tells at once why there is none: only who had one before waits for the next.
        shelf = Shelf[Connection]()
        try:
            shelf.put(self._connected(self._check))
        except Exception as error:  # Whatever it is, who waits is told of it too.
            self._failures, self._failure = self._failures + 1, error
            raise
        # Also run at the end of the process, so that the server hears of it.
        self._end = finalize(self, shelf.close)
        return shelf

    def _connected(self, check: Check | None = None) -> Kept[Connection]:
        conn = connect(self._dsn)
        try:
            if check:
                check(conn)
        # Refused, cancelled or lost: nobody else would close it.
        except BaseException:
            conn.close()
            raise
        listen_to(conn)
        return Kept(conn)

    def _connected_again(self) -> Kept[Connection]:
        for pause in pauses(self._wait_seconds):
            try:
                return self._connected()
            except DatabaseUnavailable:
                time.sleep(pause)
        return self._connected()


def pauses(seconds: float) -> Iterator[float]:
    """How long to wait before each next try to connect, for about so long in all."""
    pause, ends = 0.05, time.monotonic() + seconds
    while time.monotonic() + pause < ends:
        # Spread out: whatever cut us off cut off others too.
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, 2.0)


def exhausted(size: int, wait_seconds: float) -> DatabaseUnavailable:
    """All connections were in use, or being opened, for the whole wait."""
    return DatabaseUnavailable(
        f"All {size} pooled connections were in use, or waited for the server, for {wait_seconds:g} s."
        " Raise the pool's size, or see whether the server answers."
    )
