"""A worker that does nothing but sleep and hear the pokes, by the documented SQL protocol."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bench import Site
from benchmarks.server import Connection

LEASE = "1 hour"


class Sleeper:
    """Its session hears what is sent to it."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def pokes(self) -> int:
        """How many came since the last time it was asked."""
        return sum(1 for _ in self._conn.notifies(timeout=0.1))


@contextmanager
def asleep(site: Site) -> Iterator[Sleeper]:
    """A worker that has declared that it sleeps; every transaction that enqueues for it must poke it."""
    worker = uuid.uuid4()
    with site.connect() as conn:
        conn.execute(f"listen wakeful_{worker.hex}".encode())
        conn.execute(
            "select wakeful.register_1(%s, 'sleeper', array['default'], array['noop'], 1, %s::interval)",
            [worker, LEASE],
        )
        conn.execute(
            "select wakeful.claim_1(%s, array['default'], array[1], array[1], array['noop'], sleeps => 'these')",
            [worker],
        )
        yield Sleeper(conn)
