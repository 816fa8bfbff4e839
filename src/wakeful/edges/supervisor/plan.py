"""What a supervisor is to run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# A child that ends with this has reached --max-jobs or --max-rss, and wants a successor.
RECYCLED = 85
# Wrong usage: starting it again would tell the same.
MISUSED = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How many children, and what each runs.

    `patience_seconds`: how long one may take to stop before it is killed. `output`: the descriptor that they write to;
    None: ours.
    """

    command: tuple[str, ...]
    processes: int
    patience_seconds: float
    output: int | None = None


def wakeful_command(name: str, arguments: Sequence[str], flags: Mapping[str, object]) -> tuple[str, ...]:
    """`wakeful NAME` in this very interpreter. A flag that is True or False is a switch; None is not given."""
    command = [sys.executable, "-m", "wakeful.edges.cli", name, *arguments]
    for flag, value in flags.items():
        option = flag.replace("_", "-")
        if isinstance(value, bool):
            command.append(f"--{option}" if value else f"--no-{option}")
        elif value is not None:
            command += [f"--{option}", str(value)]
    return tuple(command)
