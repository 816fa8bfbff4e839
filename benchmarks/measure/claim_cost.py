"""What a claim costs in an empty house and in a crowd."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.measurement import Figure, Measurement, Values
from benchmarks.ours.crowd import add_dead, add_finished, add_ready, add_scheduled, add_unregistered
from benchmarks.server import Connection
from benchmarks.system import System

WANT = 100
CALLS_UNTIL_PLANS_ARE_KEPT = 10


def claim(bench: Bench, system: System) -> Values:
    """Claims of 100, in plain SQL, on sessions whose plans were made while the tables were empty.

    One database has 1 million finished, 1 million scheduled, 100,000 dead jobs and 100,000 of a task that nobody
    registered, the other has none; they are asked in turn.
    """
    claims = bench.sizes.claims
    crowd = int(bench.sizes.scheduled_millions * 1e6)
    with (
        bench.site(system) as alone,
        bench.site(system) as crowded,
        alone.connect() as here,
        crowded.connect() as there,
    ):
        claimers = [_claimer(here), _claimer(there)]
        add_finished(there, crowd)
        add_scheduled(there, crowd)
        add_dead(there, crowd // 10)
        add_unregistered(there, crowd // 10)
        for conn in (here, there):
            add_ready(conn, claims * WANT)
        for site in (alone, crowded):
            site.settle()
        times = [(claimers[0](), claimers[1]()) for _ in range(claims)]
    without, among = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "crowd_to_none": without / among,
        "none_ms": without * 1000,
        "crowd_ms": among * 1000,
    }


def _claimer(conn: Connection) -> Callable[[], float]:
    """Claims once; the seconds that it took. Its plans are kept before it is handed out."""
    worker = uuid.uuid4()
    conn.execute(
        "select wakeful.register_1(%s, 'bench', array['default'], array['noop'], 100, interval '1 day')",
        [worker],
    )

    def claim_once() -> float:
        began = time.perf_counter()
        conn.execute(
            "select * from wakeful.claim_1(%s, array['default'], array[1], array[%s::integer], array['noop'])",
            [worker, WANT],
            prepare=True,
        ).fetchall()
        return time.perf_counter() - began

    for _ in range(CALLS_UNTIL_PLANS_ARE_KEPT):
        claim_once()
    return claim_once


CLAIM = Measurement(
    "claim",
    "Claim of 100 in a crowd",
    (
        Figure("crowd_to_none", "rate in a crowd to rate alone", "ratio", "higher"),
        Figure("none_ms", "alone", "ms", "lower"),
        Figure("crowd_ms", "in a crowd", "ms", "lower"),
    ),
    claim,
    lambda system: system.name == "functions",
    repeated=False,
)
