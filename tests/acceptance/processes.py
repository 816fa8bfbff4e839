"""Commands as processes in a folder with a small app: run to their end, or watched line by line while they run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

COMMAND = (sys.executable, "-m", "wakeful.edges.cli")
PATIENCE = 60.0

APP = """
import asyncio
import time
from pathlib import Path

from wakeful import Wakeful

app = Wakeful()
empty = Wakeful()


@app.task(name="quick")
async def quick(number: int) -> int:
    return number


@app.task(name="broken", max_attempts=1)
async def broken() -> None:
    raise ValueError("always")


@app.task(name="slow")
async def slow(seconds: float) -> None:
    Path(f"{time.monotonic_ns()}.started").touch()
    await asyncio.sleep(seconds)


@app.task(name="stuck")
def stuck(seconds: float) -> None:
    Path("stuck.started").touch()
    time.sleep(seconds)
"""


def shop_in(folder: Path) -> Path:
    """The folder, with shop.py in it."""
    (folder / "shop.py").write_text(APP)
    return folder


def started(folder: Path) -> int:
    """How many slow or stuck handlers have begun: a job that is claimed and not begun is given back by a stop."""
    return len(list(folder.glob("*.started")))


def environment(dsn: str | None, variables: dict[str, str]) -> dict[str, str]:
    """What a command gets: the test's own environment, a DSN, and what the test adds."""
    return {**os.environ, **({"WAKEFUL_DSN": dsn} if dsn else {}), **variables}


def run(*arguments: str, folder: Path, dsn: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(dsn, variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def assert_sentence(ran: subprocess.CompletedProcess[str], code: int, part: str) -> None:
    """One line on stderr, nothing on stdout, no traceback."""
    assert ran.returncode == code, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.startswith("wakeful: ")
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert part in ran.stderr


def wait_until(ask: Callable[[], T | None], what: str = "it") -> T:
    """Ask until there is an answer."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if answer := ask():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


class Running:
    """A command under way, and what it has written to stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._logged: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        """Everything it has written."""
        return "".join(self.lines)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log lines of an event."""
        return [logged for logged in list(self._logged) if logged["event"] == name]

    def wait_for(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for so many log lines of an event."""
        self._wait(lambda: len(self.events(name)) >= count, name)
        return self.events(name)

    def wait_for_line(self, part: str, count: int = 1) -> None:
        """Wait for so many lines with this text."""
        self._wait(lambda: sum(part in line for line in list(self.lines)) >= count, part)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(PATIENCE)
        self._reader.join(5)
        return code

    def close(self) -> None:
        """Kill it and its children, whatever they do."""
        for pid in [*children_of(self.pid), self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)
        self._reader.join(5)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _wait(self, ask: Callable[[], bool], what: str) -> None:
        try:
            wait_until(ask, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; there is:\n{self.text}") from None

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("{"):
                self._logged.append(json.loads(line))


@contextmanager
def running(*arguments: str, folder: Path, dsn: str | None = None, **variables: str) -> Iterator[Running]:
    """A command that runs while the block does; it and its children are gone afterwards."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(dsn, variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    watched = Running(process)
    try:
        yield watched
    finally:
        watched.close()


def children_of(pid: int) -> list[int]:
    """The numbers of a process's children."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def lives(pid: int) -> bool:
    """Whether a process is there, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
