"""How much work a measurement is given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts of jobs and seconds. `drain_share` scales each system's own number of jobs."""

    drain_share: float = 1.0
    drain_cap_seconds: float = 8.0
    enqueue_seconds: float = 3.0
    bulk_jobs: int = 50_000
    waits: int = 600
    loaded_waits: int = 1_000
    timers: int = 200
    idle_seconds: float = 60.0
    pinned_jobs: int = 20_000
    history_millions: tuple[float, ...] = (0, 1)
    scheduled_millions: float = 1.0
    claims: int = 200
    herd: int = 20
    herd_pokes: int = 15
    pgbench_seconds: float = 5.0
    memory_jobs: int = 50_000


# All that goals are about, in some minutes.
BRIEF = Sizes(enqueue_seconds=2.0, history_millions=(0, 0.2))

QUICK = Sizes(
    drain_share=0.1,
    drain_cap_seconds=5.0,
    enqueue_seconds=0.5,
    bulk_jobs=10_000,
    waits=40,
    loaded_waits=200,
    timers=40,
    idle_seconds=5.0,
    pinned_jobs=3_000,
    history_millions=(0, 0.02),
    scheduled_millions=0.02,
    claims=40,
    herd=4,
    herd_pokes=3,
    pgbench_seconds=1.0,
    memory_jobs=5_000,
)
