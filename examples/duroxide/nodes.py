"""Nodes: worker processes with four dispatchers a queue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.duroxide.app import LANES

ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-m", "wakeful.edges.cli", "worker", "examples.duroxide.app:app", "--queues", LANES)


@contextmanager
def nodes(dsn: str, count: int, *options: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many processes while the block runs; they finish what they have begun."""
    environment = {**os.environ, "WAKEFUL_DSN": dsn}
    started = [
        subprocess.Popen([*_COMMAND, *options], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(60)
