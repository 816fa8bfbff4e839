"""Many seeds: `python -m tests.simulation.seeds 10000` runs as many, and prints those that fail."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.chaos.server import private_server
from tests.contract.test_model import stop_clock
from tests.sessions import Session, session
from tests.simulation.play import play


def failures(db: Session, seeds: Iterable[int]) -> dict[int, str]:
    """The seeds that fail, and how."""
    found = {}
    for seed in seeds:
        try:
            play(db, seed)
        # Whatever a worker dies of is what the seed is kept for.
        except Exception as error:
            found[seed] = f"{type(error).__name__}: {error}"
    return found


def run(count: int, first: int = 0) -> dict[int, str]:
    """As many seeds, shared between the machine's cores."""
    shares = os.cpu_count() or 1
    with ProcessPoolExecutor(shares, multiprocessing.get_context("spawn")) as processes:
        found = processes.map(run_share, [range(first + share, first + count, shares) for share in range(shares)])
        return dict(sorted(failure for part in found for failure in part.items()))


def run_share(seeds: Iterable[int]) -> dict[int, str]:
    """These seeds, on a server of their own."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="wakeful-seeds-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with private_server(Path(folder) / "server", synchronous_commit="off") as server, session(server.dsn) as db:
            stop_clock(db)
            return failures(db, seeds)


if __name__ == "__main__":
    wrong = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for seed, how in wrong.items():
        print(f"seed {seed}: {how[:400]}")
    sys.exit(1 if wrong else 0)
