"""Processes by identity: a number alone may belong to somebody else by the time it is used."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """One process, for as long as the machine runs: its number and its start, in clock ticks since boot."""

    pid: int
    started: int


def identify(pid: int) -> Process | None:
    """The living process that has this number; None for none, and for a zombie."""
    fields = _fields(pid)
    return None if fields[0] in "ZX" else Process(pid, int(fields[19]))


def parent_of(pid: int) -> int:
    """The number of its parent; 0 if it has gone."""
    return int(_fields(pid)[1])


def lives(process: Process, word: str) -> bool:
    """Whether this very process is alive, and has `word` in its command line."""
    if identify(process.pid) != process:
        return False
    try:
        return word.encode() in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def end(process: Process, word: str, signals: tuple[tuple[signal.Signals, float], ...]) -> bool:
    """Send the signals in turn, each with the seconds to wait, until the process is gone; True if it is.

    The handle is opened first and the identity checked after that, so a signal reaches this process or none.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not lives(process, word):
            return True
        for number, seconds in signals:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], seconds)[0]:
                return True
        return False
    finally:
        os.close(handle)


def _fields(pid: int) -> list[str]:
    """What the kernel says of it, from its state on; of one that has gone, that it is dead."""
    try:
        # The command name, in parentheses, may contain anything: the fields begin after its last one.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", "0"]
