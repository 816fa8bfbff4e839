"""One child, as its parent sees it."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress

from wakeful.edges.supervisor.watch import Stamp

LONGEST_LINE = 1024 * 1024


class Child:
    """A process on a tether. `ready` is set when it says so, `files` are those it has loaded."""

    def __init__(
        self, process: asyncio.subprocess.Process, told: asyncio.StreamReader, tether: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._tether = tether
        self._hearing = asyncio.create_task(self._hear(told))
        self._started = time.monotonic()
        self._killer: asyncio.TimerHandle | None = None
        self.ready = asyncio.Event()
        self.files: dict[str, Stamp] = {}
        self.stopping = False

    @classmethod
    async def start(cls, command: Sequence[str], output: int | None = None) -> Child:
        """Start it, in a process group of its own: what a terminal sends to ours, we pass on once."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *command,
                "--tether",
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        told, tether = await asyncio.open_connection(sock=ours, limit=LONGEST_LINE)
        return cls(process, told, tether)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    @property
    def lived(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._started

    def stop(self, patience: float) -> None:
        """Ask it to stop, as SIGTERM does; a second time, at once. Killed if it has not within `patience` seconds."""
        self.stopping = True
        self._send(signal.SIGTERM)
        if self._killer is not None:
            self._killer.cancel()
        self._killer = asyncio.get_running_loop().call_later(patience, self.kill)

    def kill(self) -> None:
        """End it, whatever it does."""
        self._send(signal.SIGKILL)

    async def ended(self) -> int:
        """Wait for its end: the exit code, or minus the signal that ended it."""
        code = await self._process.wait()
        if self._killer is not None:
            self._killer.cancel()
        self._hearing.cancel()
        self._tether.close()
        return code

    def _send(self, number: signal.Signals) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _hear(self, told: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while line := await told.readline():
                match json.loads(line):
                    case {"event": "loaded", "files": dict(files)}:
                        self.files = {path: (time_ns, size) for path, (time_ns, size) in files.items()}
                    case {"event": "ready"}:
                        self.ready.set()


def describe_end(code: int) -> str:
    """The end of a process in words."""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
