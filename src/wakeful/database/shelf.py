"""A pool's idle connections: the warmest is taken first, and none is kept for ever."""

from __future__ import annotations

import os
import random
import time
from collections import deque
from typing import Any, Generic, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

C = TypeVar("C", bound="psycopg.Connection[Any] | psycopg.AsyncConnection[Any]")

IDLE_SECONDS = 600.0
LIFE_SECONDS = 3600.0


class Kept(Generic[C]):
    """A pooled connection, and the moments that decide whether it stays one."""

    __slots__ = ("conn", "idle_since", "until")

    def __init__(self, conn: C) -> None:
        """It is replaced after about an hour: a little earlier or later, so that not all are at once."""
        self.conn = conn
        self.idle_since = time.monotonic()
        self.until = self.idle_since + LIFE_SECONDS * random.uniform(0.9, 1.1)


class Shelf(Generic[C]):
    """Connections that nobody uses. For any number of threads; nothing runs behind it."""

    def __init__(self) -> None:
        self._kept: deque[Kept[C]] = deque()
        self._closed = False
        self._pid = os.getpid()

    def take(self) -> Kept[C] | None:
        """The one that was used last and still lives, if there is any."""
        while True:
            try:
                kept = self._kept.pop()
            except IndexError:
                return None
            if _is_alive(kept.conn):
                return kept
            kept.conn.pgconn.finish()

    def put(self, kept: Kept[C]) -> None:
        """Keep it for the next one, unless it is old, or was left in a statement, a transaction, or a mode with those.

        A child that leaves a block in which it was forked leaves its parent's connections alone.
        """
        if self._pid != os.getpid():
            return
        now = time.monotonic()
        idle = kept.conn.pgconn.transaction_status == TransactionStatus.IDLE
        if idle and kept.conn.autocommit and now < kept.until:
            kept.idle_since = now
            self._kept.append(kept)
        else:
            kept.conn.pgconn.finish()
        self._end_unused_since(now - IDLE_SECONDS)
        if self._closed:
            self.close()

    def close(self) -> None:
        """End them all, and from now on what is put back. A forked child leaves its parent's alone."""
        if self._pid != os.getpid():
            return
        self._closed = True
        self._end_unused_since(time.monotonic())

    def _end_unused_since(self, moment: float) -> None:
        """The coldest is at the front. Another thread that takes it meanwhile makes us end the next: no harm."""
        try:
            while self._kept[0].idle_since <= moment:
                kept = self._kept.popleft()
                kept.conn.pgconn.finish()
        except IndexError:
            return


def _is_alive(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether the server has not hung up, as far as the socket knows. Sends nothing, never blocks."""
    try:
        # Twice: the first read takes the server's farewell, the second meets the end of the stream.
        conn.pgconn.consume_input()
        conn.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not conn.closed
