"""An environment that is ready, kept from one run to the next."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS_TO_INSTALL = 900


class NotInstalled(Exception):
    """The system cannot be had on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Installed:
    """How to start programs there, and what is in it."""

    command: tuple[str, ...]
    versions: Mapping[str, str]
    environment: Mapping[str, str]


def kept(folder: Path, asked: Sequence[str], install: Callable[[], Installed]) -> Installed:
    """What stands in the folder if it was made from the same request, else what `install` makes there."""
    mark = folder / "ready.json"
    if mark.exists():
        saved = json.loads(mark.read_text("utf-8"))
        if saved["asked"] == list(asked):
            return Installed(tuple(saved["command"]), saved["versions"], saved["environment"])
    folder.mkdir(parents=True, exist_ok=True)
    made = install()
    saved = {
        "asked": list(asked),
        "command": list(made.command),
        "versions": dict(made.versions),
        "environment": dict(made.environment),
    }
    mark.write_text(json.dumps(saved, indent=1) + "\n", "utf-8")
    return made


def run(command: Sequence[str | Path], **options: object) -> str:
    """Run an installer; what it prints, or NotInstalled with its last words."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_TO_INSTALL,
            **options,  # type: ignore[call-overload]
        )
    except FileNotFoundError as error:
        raise NotInstalled(f"{command[0]} is not on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"{command[0]} took longer than {SECONDS_TO_INSTALL} s") from error
    if done.returncode:
        last = [line.strip() for line in done.stdout.splitlines() if line.strip()][-1:] or ["no reason given"]
        raise NotInstalled(f"{Path(str(command[0])).name} said: {last[0][:200]}")
    return str(done.stdout)
