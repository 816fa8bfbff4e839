"""`python -m examples.duroxide --nodes 2`: run nodes on the embedded server, measure them, and print the table."""

from __future__ import annotations

import argparse
from uuid import uuid4

from examples.duroxide.app import SCHEMA, app, start
from examples.duroxide.measure import Figures, Observer
from examples.duroxide.nodes import nodes
from wakeful.database.connect import connect


def table(figures: Figures, node_count: int, burst: int) -> str:
    """The document's comparison; the first two rows are its own."""
    rows = (
        ("Configuration", "Idle, 4 dispatchers", "Wake latency", f"Claims for {burst}"),
        ("Short-poll (50 ms)", "160 q/s", "0-50 ms", "-"),
        ("Short-poll (1 s)", "8 q/s", "0-1000 ms", "-"),
        (
            f"wakeful, {node_count} node{'s' if node_count > 1 else ''}",
            f"{figures.idle_queries_per_second / node_count:.3f} q/s a node",
            f"{figures.wake_ms:.1f} ms, timer {figures.timer_ms:+.1f} ms",
            f"{figures.burst_claims}, {figures.burst_empty} of them empty, in {figures.burst_seconds:.2f} s",
        ),
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure nodes of durable orchestrations.")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--idle-seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--burst", type=int, default=100)
    given = parser.parse_args()
    with app, connect(app.database.dsn) as conn:
        conn.execute(SCHEMA)
        observer = Observer(app, conn)
        observer.count_calls()
        with nodes(app.database.dsn, given.nodes):
            asleep = "select count(*) from wakeful.workers where asleep"
            observer.until(lambda: observer.ask(asleep) == given.nodes, "the nodes")
            order = f"order-{uuid4()}"
            start(order, "order")
            observer.until(lambda: observer.finished([order]), "the order")
            for step, event in conn.execute(
                "select step, event from history where instance = %s order by step", [order]
            ):
                print(f"{order} step {step}: {event}")
            print(table(observer.figures(given.idle_seconds, given.rounds, given.burst), given.nodes, given.burst))


if __name__ == "__main__":
    main()
