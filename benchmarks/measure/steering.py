"""What limits, breakers and fair shares cost a claim: those of others, and one's own."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.measurement import Figure, Measurement, Values
from benchmarks.ours.crowd import add_ready
from benchmarks.server import Connection
from benchmarks.system import System

WANT = 100
TENANTS = 1_000
CALLS_UNTIL_PLANS_ARE_KEPT = 10


def steering(bench: Bench, system: System) -> Values:
    """Claims of 100, in plain SQL: nothing said, breakers and limits on other tasks, a fair queue with 1,000 tenants.

    The three databases are asked in turn.
    """
    claims = bench.sizes.claims
    with (
        bench.site(system) as plain,
        bench.site(system) as others,
        bench.site(system) as fair,
        plain.connect() as nothing_said,
        others.connect() as said_of_others,
        fair.connect() as shared,
    ):
        conns = (nothing_said, said_of_others, shared)
        said_of_others.execute("select wakeful.set_task_policy('other', 'smtp', concurrency => 3, key => 'tenant')")
        said_of_others.execute("select wakeful.set_queue_policy('other', fair => true)")
        shared.execute("select wakeful.set_queue_policy('default', fair => true)")
        claimers = [_claimer(conn) for conn in conns]
        for conn in (nothing_said, said_of_others):
            add_ready(conn, claims * WANT)
        _add_shared(shared, claims * WANT)
        for site in (plain, others, fair):
            site.settle()
        times = [tuple(claimer() for claimer in claimers) for _ in range(claims)]
    alone, beside, fairly = (statistics.median(column) for column in zip(*times, strict=True))
    return {"unused": alone / beside, "fair": alone / fairly, "plain_ms": alone * 1000, "fair_ms": fairly * 1000}


def _add_shared(conn: Connection, jobs: int) -> None:
    """Ready jobs of a thousand tenants, enqueued as anyone does, so that they have their turns."""
    for start in range(0, jobs, 10_000):
        conn.execute(
            "select count(*) from wakeful.enqueue_many((select jsonb_agg(jsonb_build_object('task', 'noop', 'tenant',"
            " 'tenant ' || mod(n, %s))) from generate_series(%s::integer, %s::integer) n))",
            [TENANTS, start + 1, min(start + 10_000, jobs)],
        )


def _claimer(conn: Connection) -> Callable[[], float]:
    worker = uuid.uuid4()
    conn.execute(
        "select wakeful.register_1(%s, 'bench', array['default'], array['noop'], 100, interval '1 day')", [worker]
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


STEERING = Measurement(
    "steering",
    "Claim of 100 beside limits, and in a fair queue",
    (
        Figure("unused", "rate beside others' limits to rate without any", "ratio", "higher"),
        Figure("fair", "rate of a fair queue with 1,000 tenants to that of a plain one", "ratio", "higher"),
        Figure("plain_ms", "plain", "ms", "lower"),
        Figure("fair_ms", "fair", "ms", "lower"),
    ),
    steering,
    lambda system: system.name == "functions",
    repeated=False,
)
