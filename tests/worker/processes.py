"""Worker processes, as tests start, signal and outlive them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

ROOT = Path(__file__).parents[2]
SOON_SECONDS = 60.0


def until(condition: Callable[[], object], seconds: float = SOON_SECONDS) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Journal:
    """What handlers told, in whichever process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, event: str | None = None, job: UUID | None = None) -> list[dict[str, Any]]:
        """Those of this event and job."""
        text = self.path.read_text() if self.path.exists() else ""
        told = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [
            line
            for line in told
            if (event is None or line["event"] == event) and (job is None or line["job"] == str(job))
        ]

    def starts(self) -> dict[str, int]:
        """How often each job was started."""
        jobs = [line["job"] for line in self.lines("start")]
        return {job: jobs.count(job) for job in set(jobs)}


class WorkerProcess:
    """A worker of an app, `tests.worker.apps` unless another is named, in a process of its own.

    `before` is a command that ends by running the one it is given: one that changes the network, or what may be had.
    """

    def __init__(
        self,
        dsn: str,
        journal: Journal,
        app: str = "tests.worker.apps",
        variables: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        **flags: object,
    ) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")},
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "WAKEFUL_DSN": dsn,
            "JOURNAL": str(journal.path),
            **(variables or {}),
        }
        self._log = journal.path.with_name(f"worker-{time.monotonic_ns()}.log")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", app, json.dumps({"poll_interval": 60, **flags})],
                env=environment,
                cwd=journal.path.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        """What it said so far."""
        return self._log.read_text()

    def started(self) -> WorkerProcess:
        """Return once it is registered, which on a busy machine takes its time."""
        until(lambda: "worker_started" in self.log or self.process.poll() is not None, 120)
        assert self.process.poll() is None, self.log
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def ends(self, seconds: float = SOON_SECONDS) -> int:
        """Its exit code, once it has ended."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.log}") from None

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self.process.kill()
        self.process.wait()


class Fleet:
    """The worker processes of one test, all killed at its end."""

    def __init__(self, dsn: str, journal: Journal) -> None:
        self._dsn = dsn
        self._journal = journal
        self.workers: list[WorkerProcess] = []

    def start(self, **flags: Any) -> WorkerProcess:
        """One more; it may take a moment until it is registered."""
        worker = WorkerProcess(self._dsn, self._journal, **flags)
        self.workers.append(worker)
        return worker


@contextmanager
def fleet_on(dsn: str, journal: Journal) -> Iterator[Fleet]:
    """A fleet that nothing is left of."""
    fleet = Fleet(dsn, journal)
    try:
        yield fleet
    finally:
        for worker in fleet.workers:
            if worker.process.poll() is None:
                worker.signal(signal.SIGCONT)
                worker.kill()
