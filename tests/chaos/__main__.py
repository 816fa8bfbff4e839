"""`make chaos`: every fault, its verdict, and the page in the docs. Exit code 1 when an invariant is broken."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.chaos import report
from tests.chaos.faults import FAULTS
from tests.chaos.pooler import no_pooler
from tests.chaos.report import Layer, Way
from tests.chaos.scenario import THROUGH, Effort, Verdict, play
from tests.chaos.soak import SAID

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "proof.md"
# Examples of the state machine times steps of each, at an effort of 1: see tests/contract/test_model.py.
STEPS_OF_A_RUN = 100 * 50
TITLES = {None: "Workers and producers connect directly", "pgbouncer": "All through PgBouncer in transaction mode"}


def main() -> int:
    """Run what is asked for."""
    asked = arguments()
    # So that workers and servers are taken down by whoever started them.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    names = asked.only.split(",") if asked.only else list(FAULTS)
    effort = Effort(seconds=asked.minutes * 60, bursts=asked.bursts)
    ways = [played(names, asked.seed, effort, through) for through in ways_of(asked)]
    layers = [] if asked.only else [planted(), states(asked.steps), seeds(asked.seeds)]
    for way in ways:
        print(f"\n{way.title}\n{report.text(way.verdicts, way.missing)}")
    print("\n".join(f"{layer.says}: {layer.complaint or 'all hold'}" for layer in layers))
    if asked.write or not asked.only:
        size = f"Seed {asked.seed}, {asked.minutes:g} minutes a fault{longer(names)}"
        again = f"make chaos ARGS='{' '.join(sys.argv[1:])}'"
        soaked = SAID.read_text() if SAID.exists() else ""
        PAGE.write_text(report.page(ways, size, again, layers, soaked))
    wrong = any(report.failures(way.verdicts) for way in ways) or any(not layer.holds for layer in layers)
    return 1 if wrong else 0


def ways_of(asked: argparse.Namespace) -> list[str | None]:
    """Directly, or through what was asked for; all of them when nothing was."""
    if asked.through is not None:
        return [None if asked.through == "nothing" else asked.through]
    return [None] if asked.only else [None, *THROUGH]


def played(names: Sequence[str], seed: int, effort: Effort, through: str | None) -> Way:
    """All of these faults, one after the other; what cannot be done here is said in a line."""
    missing = {name: why for name in names if (why := FAULTS[name].missing() or lacking(through))}
    verdicts: list[Verdict] = []
    for name in names:
        if name in missing:
            print(f"{name}: not run, {missing[name]}", flush=True)
            continue
        print(f"{name}: {FAULTS[name].says} (seed {seed}{f', through {through}' if through else ''})", flush=True)
        verdicts.append(judged(name, seed, effort, through))
        print(report.text(verdicts[-1:], {}).split("\n", 1)[1], flush=True)
    return Way(TITLES[through], verdicts, missing)


def longer(names: Sequence[str]) -> str:
    """Which of them go on for longer than that."""
    return "".join(f", {FAULTS[name].share:g} times that for `{name}`" for name in names if FAULTS[name].share > 1)


def lacking(through: str | None) -> str | None:
    """Why there is no way through it."""
    return no_pooler() if through == "pgbouncer" else None


def judged(name: str, seed: int, effort: Effort, through: str | None) -> Verdict:
    """One scenario. One that cannot be played to its end is broken too."""
    try:
        return play(FAULTS[name], seed, effort, through)
    # The others are run all the same; this one's row says why it has no numbers.
    except Exception as error:
        return Verdict(name, seed, through, broken={13: [f"{type(error).__name__}: {error}"]})


def planted() -> Layer:
    """Bugs that were put in must be found."""
    files = ("test_planted_bugs.py", "test_ahead_of_the_disk.py", "test_invariants.py")
    bugs = (*(f"tests/chaos/{name}" for name in files), "tests/simulation/test_seeds.py")
    done = ran([sys.executable, "-m", "pytest", "-q", *bugs, "-k", "caught or finds or evidence"])
    return Layer("planted bugs and forged evidence, each found by its checker", done)


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
    parser.add_argument("--through", choices=["nothing", *THROUGH], help="reach the database through this alone")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each fault goes on")
    parser.add_argument("--bursts", type=int, default=5, help="that measure the throughput; 0: it is not measured")
    parser.add_argument("--steps", type=int, default=100_000, help="of the state machine, with all faults")
    parser.add_argument("--seeds", type=int, default=10_000, help="of the simulation, with all faults")
    parser.add_argument("--write", action="store_true", help="write the page in the docs, though only some are run")
    asked = parser.parse_args()
    if unknown := set((asked.only or "none").split(",")) - FAULTS.keys():
        parser.error(f"there is no fault {min(unknown)}: known are {', '.join(FAULTS)}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
