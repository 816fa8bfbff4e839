"""The child's end of the tether."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress

import wakeful
from wakeful.edges.supervisor.watch import Stamp, stamps


class Tether:
    """Tells the parent how things stand; `watch` notices that the parent has gone."""

    def __init__(self, descriptor: int) -> None:
        # It came through exec, but must not go on to what the handlers start.
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)

    def tell(self, event: str, **facts: object) -> None:
        """Send one line. A parent that has gone is told nothing."""
        with suppress(OSError):
            self._socket.sendall(json.dumps({"event": event, **facts}).encode() + b"\n")

    def watch(self, loop: asyncio.AbstractEventLoop, gone: Callable[[], None]) -> None:
        """Call `gone`, once, when the parent's end is closed: the kernel does that for a parent that was killed."""

        def read() -> None:
            try:
                received = self._socket.recv(4096)
            except OSError:
                received = b""
            if not received:
                loop.remove_reader(self._socket)
                gone()

        loop.add_reader(self._socket, read)


def own_files() -> dict[str, Stamp]:
    """The files of loaded modules that are neither Python's, nor installed, nor ours: those that a developer edits."""
    installed = {os.path.realpath(path) for path in (*sysconfig.get_paths().values(), *wakeful.__path__)}
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths = {os.path.realpath(file) for file in files if file and file.endswith(".py")}
    return stamps(path for path in paths if not any(path.startswith(f"{folder}{os.sep}") for folder in installed))
