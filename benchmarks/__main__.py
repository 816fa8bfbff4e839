"""`python -m benchmarks`: measure, report, and publish or check."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.bench import ROOT
from benchmarks.contestants import chosen
from benchmarks.options import read_options
from benchmarks.run import run

BUILD = ROOT / ".build" / "bench"


def main() -> int:
    options = read_options()
    results = run(
        chosen(options.peers), options.measurements, rounds=options.rounds, sizes=options.sizes, folder=BUILD
    )
    results.write(BUILD / "results.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
