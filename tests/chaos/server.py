"""A PostgreSQL of one test's own, which it may kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.acceptance.processes import lives
from tests.worker.processes import until
from wakeful.database import embedded
from wakeful.database.connect import connect
from wakeful.database.embedded.layout import locate
from wakeful.database.migrations import up


class Server:
    """Started on demand; after a kill it comes back at the same address, with all that was committed."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self._directory = directory
        # A killed server loses nothing that the kernel was given: the machine itself lives on.
        self._settings = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", **settings}
        self.dsn = ""
        self._pid = 0

    def start(self) -> None:
        """Returns when it takes connections."""
        running = embedded.ensure(self._directory, settings=self._settings, linger_seconds=0)
        assert self.dsn in ("", running.dsn)
        self.dsn, self._pid = running.dsn, running.pid

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill the postmaster; returns when nobody answers any more."""
        os.kill(self._pid, number)
        until(lambda: not lives(self._pid) and not self._answers())

    @property
    def cluster(self) -> Path:
        """Where its data is."""
        return locate(self._directory).cluster

    @property
    def log(self) -> str:
        """What the server has said."""
        return "".join(path.read_text(errors="replace") for path in sorted(self._directory.rglob("*.log")))

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True


EFFECT = "create table public.effect (job_id uuid not null)"


@contextmanager
def private_server(directory: Path, *, tables: str = EFFECT, **settings: str) -> Iterator[Server]:
    """A migrated server with these tables, gone with its data at the end."""
    server = Server(directory, **settings)
    server.start()
    try:
        with connect(server.dsn) as conn:
            up(conn)
            conn.execute(tables.encode())
        yield server
    finally:
        embedded.reset(directory)
