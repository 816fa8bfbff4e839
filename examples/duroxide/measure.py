"""What nodes cost and how quick they are, seen from outside: by the server's own counts of function calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Final
from uuid import uuid4

import psycopg

from examples.duroxide.app import start
from wakeful import Wakeful

# What a worker sends by itself. Settling is part of `claim_1` or `complete_1`, and nothing while idle.
_ASKING: Final = ("claim_1", "pulse_1", "beat_1", "upkeep_1", "held_1", "complete_1", "settle_1", "note_1")
# A pulse is one query, and beats and claims by calling the other two.
_CALLS: Final = """
select coalesce(sum(case when funcname = 'pulse_1' then -calls else calls end), 0) from pg_stat_user_functions
where schemaname = 'wakeful' and funcname = any (%s)
"""
# Jobs of one claim have started at the same moment.
_PRODUCTIVE: Final = "select count(distinct (worker_id, started_at)) from wakeful.jobs"
_LATENCY: Final = """
select 1000 * extract(epoch from started_at - greatest(created_at, run_at))::float8 from wakeful.jobs
where task = 'duroxide.turn' and payload ->> 'instance' = any (%s) and state = 'completed'
"""
_PATIENCE_SECONDS: Final = 60.0
# A connection that falls idle keeps its counts for up to ten seconds.
_KEPT_BACK_SECONDS: Final = 11.0


@dataclass(frozen=True, slots=True)
class Figures:
    """The table's numbers. Latencies are medians, in milliseconds, by the database's clock."""

    idle_queries_per_second: float
    wake_ms: float
    timer_ms: float
    burst_claims: int
    burst_empty: int
    burst_seconds: float


class Observer:
    """A connection of its own that counts, and waits."""

    def __init__(self, app: Wakeful, conn: psycopg.Connection[Any]) -> None:
        self._app = app
        self._conn = conn

    def count_calls(self) -> None:
        """Let the server count; connections that are open already take it up with their next transaction."""
        name = self._conn.info.dbname
        statement = psycopg.sql.SQL("alter database {} set track_functions = 'pl'")
        self._conn.execute(statement.format(psycopg.sql.Identifier(name)))

    def calls(self, *names: str) -> int:
        """How many queries these functions were called by, as far as the server has been told."""
        self._conn.execute("select pg_stat_clear_snapshot()")
        return int(self.ask(_CALLS, list(names or _ASKING)))

    def final_calls(self, *names: str) -> int:
        """The same, once every connection has told."""
        time.sleep(_KEPT_BACK_SECONDS)
        return self.calls(*names)

    def ask(self, query: str, *params: object) -> Any:
        """The only value of the only row."""
        row = self._conn.execute(query.encode(), params).fetchone()
        assert row is not None
        return row[0]

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain for {what}")
            time.sleep(0.01)

    def finished(self, instances: list[str]) -> bool:
        """Whether all of these orchestrations have come to their end."""
        query = "select count(*) from orchestration where finished and instance = any (%s)"
        return bool(self.ask(query, instances) == len(instances))

    def idle(self, seconds: float) -> float:
        """Queries a second while there is nothing to do."""
        before, began = self.final_calls(), time.monotonic()
        time.sleep(max(0, seconds - _KEPT_BACK_SECONDS))
        return (self.final_calls() - before) / (time.monotonic() - began)

    def latency(self, rounds: int, delay: float | None = None) -> float:
        """The median time from the commit, or from the moment a timer is due, to the start; one at a time."""
        instances = [uuid4().hex for _ in range(rounds)]
        for instance in instances:
            start(instance, "note", app=self._app, **({} if delay is None else {"delay": delay}))
            self.until(lambda instance=instance: self.finished([instance]), "an orchestration")  # type: ignore[misc]
        return median(float(ms) for (ms,) in self._conn.execute(_LATENCY, [instances]).fetchall())

    def burst(self, count: int) -> tuple[int, int, float]:
        """Claims, those of them that found nothing, and seconds, for so many jobs that are there at once."""
        before, productive = self.final_calls("claim_1"), int(self.ask(_PRODUCTIVE))
        seconds = self.drain(count)
        claims = self.final_calls("claim_1") - before
        return claims, claims - (int(self.ask(_PRODUCTIVE)) - productive), seconds

    def drain(self, count: int) -> float:
        """Seconds until so many jobs that are there at once are done."""
        began = time.monotonic()
        instances = [uuid4().hex for _ in range(count)]
        with self._app.database.transaction() as conn:
            for instance in instances:
                conn.execute("insert into orchestration (instance, workflow) values (%s, 'note')", [instance])
                payload = {"instance": instance}
                self._app.enqueue("duroxide.turn", payload, conn=conn, queue="orchestrator")
        self.until(lambda: self.finished(instances), "the burst")
        return time.monotonic() - began

    def figures(self, idle_seconds: float, rounds: int, burst: int) -> Figures:
        """All of them, one after the other."""
        wake, timer = self.latency(rounds), self.latency(rounds, delay=0.1)
        return Figures(self.idle(idle_seconds), wake, timer, *self.burst(burst))
