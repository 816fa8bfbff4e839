"""Graphile Worker: Node, a local queue that fetches in batches, jobs deleted when done."""

from benchmarks.system import Node, System

SYSTEM = System(
    name="graphile",
    title="Graphile Worker",
    kind="peer",
    module="benchmarks.peers.graphile_worker",
    home=Node(("graphile-worker", "pg"), "graphile_worker.mjs"),
    settings="24 jobs at once, local queue of 500, completions batched; no history. Its defaults in latency runs",
    unfinished="select exists (select from graphile_worker._private_jobs)",
)
