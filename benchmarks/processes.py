"""Processes of the contestants: started in a group of their own, and ended with it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

SECONDS_TO_STOP = 6.0


class Group:
    """A process and whatever it starts."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether its first process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """SIGTERM, and SIGKILL to what is left after some seconds."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + SECONDS_TO_STOP
        while time.monotonic() < deadline and (self.alive or self._members()):
            time.sleep(0.02)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def cpu_seconds(self) -> float:
        """Processor time used so far."""
        ticks = sum(sum(map(int, fields[11:13])) for fields in self._members().values())
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        """Resident memory of all its processes."""
        pages = sum(int(fields[21]) for fields in self._members().values())
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def own_megabytes(self) -> float:
        """The part of that which no file backs: the probe that a handler writes to, for one, is not its own."""
        found = [re.search(r"RssAnon:\s+(\d+) kB", status) for status in map(_status, self._members())]
        return sum(int(one[1]) for one in found if one) * 1024 / 1e6

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _members(self) -> dict[int, list[str]]:
        """The fields of /proc/PID/stat behind the name, of each process of the group that is not a zombie."""
        found = {}
        for path in Path("/proc").iterdir():
            if not path.name.isdigit():
                continue
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self._process.pid and fields[0] != "Z":
                found[int(path.name)] = fields
        return found


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
