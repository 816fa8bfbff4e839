"""pg-boss: Node, batches fetched and completed as sets, with its notifications on."""

from benchmarks.system import Node, System

SYSTEM = System(
    name="pgboss",
    title="pg-boss",
    kind="peer",
    module="benchmarks.peers.pg_boss",
    home=Node(("pg-boss",), "pg_boss.mjs", otherwise=("pg-boss@12.35.0",)),
    settings="batches of 1,000, two at a time, burst when full, notifications on",
    unfinished="select exists (select from pgboss.job where state in ('created', 'active', 'retry'))",
)
