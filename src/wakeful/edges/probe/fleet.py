"""The fleet's numbers for a scrape: asked of the database on a connection of its own, and not too often."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from wakeful.database.connect import connect
from wakeful.database.fetch import fetch
from wakeful.observe.fleet_families import fleet_families
from wakeful.statements import inspect
from wakeful.values.family import Family

FRESH_SECONDS = 5.0
ANSWER_SECONDS = 2


class Fleet:
    """Remembers the last answer for some seconds, so that several scrapers cost no more than one."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = threading.Lock()
        self._asked_at = -FRESH_SECONDS
        self._families: list[Family] = []

    def families(self) -> list[Family]:
        """The numbers, at most some seconds old. Raises what keeps the database from answering."""
        with self._lock:
            if time.monotonic() - self._asked_at >= FRESH_SECONDS:
                self._families = self._ask()
                self._asked_at = time.monotonic()
            return self._families

    def _ask(self) -> list[Family]:
        with connect(self._dsn, name="wakeful probe") as conn, conn.transaction():
            conn.execute("select set_config('statement_timeout', %s, true)", [f"{ANSWER_SECONDS}s"])
            depths = fetch(conn, inspect.depths())
            health = fetch(conn, inspect.health(timedelta(hours=1)))
            vitals = fetch(conn, inspect.vitals())
        return list(fleet_families(depths, health, vitals))
