"""`make chaos`: every fault, its verdict, and the page in the docs. Exit code 1 when an invariant is broken."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.chaos import report
from tests.chaos.faults import FAULTS
from tests.chaos.scenario import Effort, Verdict, play

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "proof.md"


def main() -> int:
    """Run what is asked for."""
    asked = arguments()
    verdicts: list[Verdict] = []
    missing: dict[str, str] = {}
    for name in asked.only.split(",") if asked.only else list(FAULTS):
        kind = FAULTS[name]
        if why := kind.missing():
            missing[name] = why
            continue
        print(f"{name}: {kind.says} (seed {asked.seed})", flush=True)
        verdicts.append(play(kind, asked.seed, Effort(seconds=asked.minutes * 60)))
        print("\n".join([report.text(verdicts[-1:], {}).split("\n", 1)[1]]), flush=True)
    print(f"\n{report.text(verdicts, missing)}")
    if asked.write or not asked.only:
        PAGE.write_text(report.page(verdicts, missing, asked.seed, asked.minutes))
    return 1 if report.failures(verdicts) else 0


def arguments() -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="make chaos ARGS=…")
    parser.add_argument("--only", help=f"some of the faults, with commas between them: {', '.join(FAULTS)}")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each fault goes on")
    parser.add_argument("--write", action="store_true", help="write the page in the docs, though only some are run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
