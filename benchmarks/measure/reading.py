"""How long an operator waits for an answer when there is much to look at."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measurement import Figure, Measurement, Values, ours
from benchmarks.ours.crowd import add_dead, add_past, add_ready
from benchmarks.server import Connection
from benchmarks.system import System

DEAD_SHARE = 100
TRIES = 3

# What is asked, by the figure's key. `{id}` is a finished job's, `{correlation}` another's. The only rare job is old.
QUESTIONS: dict[str, str] = {
    "stats": "stats",
    "by_task": "stats --by-task --since 1h",
    "health": "health",
    "doctor": "doctor",
    "queues": "queues list",
    "workers": "workers list",
    "top": "top",
    "explain": "explain {id}",
    "show": "jobs show {id}",
    "list": "jobs list",
    "list_task": "jobs list --task noop --state completed",
    "list_since": "jobs list --since 1h --state cancelled",
    "list_correlation": "jobs list --correlation {correlation}",
    "list_rare_task": "jobs list --task rare",
    "list_payload": 'jobs list --payload {{"n":-1}}',
    "list_error": "jobs list --error Timeout",
    "dead_list": "dead list",
    "dead_error": "dead list --error Timeout",
}


def reading(bench: Bench, system: System) -> Values:
    """Reading commands as processes, the best of three, beside millions of finished jobs, a hundredth as many dead."""
    finished = int(max(bench.sizes.history_millions) * 1e6)
    with bench.site(system) as site:
        with site.connect() as conn:
            add_past(conn, finished)
            add_dead(conn, finished // DEAD_SHARE)
            add_ready(conn, 1000)
        site.settle()
        with site.connect() as conn:
            seconds = ask(conn, site.dsn)
    return {"slowest": max(seconds.values()), **seconds}


def ask(conn: Connection, dsn: str) -> dict[str, float]:
    """How long each command takes, its start and end included."""
    [(id,)] = conn.execute("select id from wakeful.finished_job order by id desc offset 1000 limit 1").fetchall()
    [(correlation,)] = conn.execute(
        "select correlation_id from wakeful.finished_job where correlation_id <> id limit 1"
    ).fetchall()
    return {
        key: min(_seconds(command.format(id=id, correlation=correlation), dsn) for _ in range(TRIES))
        for key, command in QUESTIONS.items()
    }


def _seconds(command: str, dsn: str) -> float:
    program = Path(sys.executable).parent / "wakeful"
    began = time.perf_counter()
    done = subprocess.run(
        [program, *command.split(), "--dsn", dsn, "--json"], capture_output=True, check=False, text=True
    )
    seconds = time.perf_counter() - began
    # 1 is an answer too: unhealthy. One that was given up says so on stderr, and answers nothing.
    if not done.stdout:
        raise RuntimeError(f"wakeful {command}: {done.stderr}")
    return seconds


READING = Measurement(
    "reading",
    "Reading commands in a crowd",
    (
        Figure("slowest", "the slowest", "s", "lower"),
        *(Figure(key, command.partition(" {")[0], "s", "lower") for key, command in QUESTIONS.items()),
    ),
    reading,
    ours,
    repeated=False,
)
