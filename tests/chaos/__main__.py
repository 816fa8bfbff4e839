"""`make chaos`: every fault, its verdict, and the page in the docs. Exit code 1 when an invariant is broken."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.chaos import report
from tests.chaos.faults import FAULTS
from tests.chaos.report import Layer
from tests.chaos.scenario import Effort, Verdict, play

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "proof.md"
# Examples of the state machine times steps of each, at an effort of 1: see tests/contract/test_model.py.
STEPS_OF_A_RUN = 100 * 50


def main() -> int:
    """Run what is asked for."""
    asked = arguments()
    names = asked.only.split(",") if asked.only else list(FAULTS)
    missing = {name: why for name in names if (why := FAULTS[name].missing())}
    verdicts: list[Verdict] = []
    for name in names:
        if name not in missing:
            print(f"{name}: {FAULTS[name].says} (seed {asked.seed})", flush=True)
            verdicts.append(judged(name, asked.seed, asked.minutes * 60))
            print(report.text(verdicts[-1:], {}).split("\n", 1)[1], flush=True)
    layers = [] if asked.only else [states(asked.steps), seeds(asked.seeds)]
    print(f"\n{report.text(verdicts, missing, layers)}")
    if asked.write or not asked.only:
        PAGE.write_text(report.page(verdicts, missing, asked.seed, asked.minutes, layers))
    return 1 if report.failures(verdicts) or any(not layer.holds for layer in layers) else 0


def judged(name: str, seed: int, seconds: float) -> Verdict:
    """One scenario. One that cannot be played to its end is broken too."""
    try:
        return play(FAULTS[name], seed, Effort(seconds=seconds))
    # The others are run all the same; this one's row says why it has no numbers.
    except Exception as error:
        return Verdict(name, seed, 0, 0, 0, 0.0, 0.0, 0.0, {13: [f"{type(error).__name__}: {error}"]})


def states(steps: int) -> Layer:
    """The core's functions against a model, in random sequences."""
    done = ran(
        [sys.executable, "-m", "pytest", "-q", "tests/contract/test_model.py", "-k", "model_does"],
        WAKEFUL_TEST_EFFORT=str(max(1.0, steps / STEPS_OF_A_RUN)),
    )
    return Layer(f"{steps:,} steps of the core's functions against a model of it (Hypothesis)", done)


def seeds(count: int) -> Layer:
    """Workers in virtual time."""
    done = ran([sys.executable, "-m", "tests.simulation.seeds", str(count)])
    return Layer(f"{count:,} seeds of workers in virtual time, on a real database", done)


def ran(command: list[str], **variables: str) -> str:
    """What a command complains of; nothing when all is well."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    return (done.stdout + done.stderr)[-2000:] if done.returncode else ""


def arguments() -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="make chaos ARGS=…")
    parser.add_argument("--only", help=f"some of the faults, with commas between them: {', '.join(FAULTS)}")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each fault goes on")
    parser.add_argument("--steps", type=int, default=100_000, help="of the state machine, with all faults")
    parser.add_argument("--seeds", type=int, default=10_000, help="of the simulation, with all faults")
    parser.add_argument("--write", action="store_true", help="write the page in the docs, though only some are run")
    asked = parser.parse_args()
    if unknown := set((asked.only or "none").split(",")) - FAULTS.keys():
        parser.error(f"there is no fault {min(unknown)}: known are {', '.join(FAULTS)}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
