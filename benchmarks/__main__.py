"""`python -m benchmarks`: measure, report, and publish or check."""

from __future__ import annotations

import signal
import sys

from benchmarks.alone import alone
from benchmarks.bench import ROOT
from benchmarks.check import moves
from benchmarks.contestants import chosen
from benchmarks.measure import MEASUREMENTS
from benchmarks.options import Options, read_options
from benchmarks.report.page import publish
from benchmarks.report.terminal import tell
from benchmarks.results import Results, read_results
from benchmarks.run import run

BUILD = ROOT / ".build" / "bench"
DOCS = ROOT / "docs" / "explanation"
PUBLISHED = DOCS / "benchmarks" / "results.json"


def main() -> int:
    """Exit with 1 when a check finds that something got worse."""
    options = read_options()
    # So that workers and servers are taken down by whoever started them.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    if (options.check or options.add) and not PUBLISHED.exists():
        print(f"Nothing is published in {PUBLISHED}: run `make bench-peers` first.", file=sys.stderr)
        return 1
    with alone(BUILD):
        results = run(
            chosen(options.peers),
            options.measurements,
            rounds=options.rounds,
            sizes=options.sizes,
            folder=BUILD,
        )
    print("\n" + tell(results, options.measurements))
    if options.add:
        results = read_results(PUBLISHED).with_rounds_of(results)
    if options.publish:
        print(f"Written to {publish(results, MEASUREMENTS, DOCS)}")
    return _check(results, options) if options.check else 0


def _check(results: Results, options: Options) -> int:
    moved = list(moves(read_results(PUBLISHED), results, options.measurements))
    print("\n".join(map(str, moved)) or "No ratio has moved.")
    return int(any(move.worse for move in moved))


if __name__ == "__main__":
    sys.exit(main())
