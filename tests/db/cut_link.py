"""A TCP link to the server that can be cut at a chosen moment."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Moment = Literal["before it is sent", "before its answer"]


class CutLink:
    """Carries bytes both ways. `cut` ends the next exchange that holds `mark`, as often as asked."""

    def __init__(self, dsn: str) -> None:
        parts = conninfo_to_dict(dsn)
        self._server = (str(parts["host"]), int(str(parts["port"])))
        self._door = socket.create_server(("127.0.0.1", 0))
        self._address = self._door.getsockname()
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._address[1])
        self._moment: Moment | None = None
        self._mark = b""
        self._left = 0
        self.cuts = 0
        threading.Thread(target=self._welcome, daemon=True).start()

    def cut(self, moment: Moment, mark: bytes, times: int = 1) -> None:
        """Cut the links on which a message with this mark goes, so many times."""
        self._mark, self._left, self._moment = mark, times, moment

    def close(self) -> None:
        """Let nobody in any more. Links that are there stay."""
        with suppress(OSError):
            # Or who waits at the door would let one more in.
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def open(self) -> None:
        """Let them in again, at the same address."""
        self._door = socket.create_server(self._address)
        threading.Thread(target=self._welcome, daemon=True).start()

    def _welcome(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(self._server)
                dying = threading.Event()
                for source, target, outward in ((client, server, True), (server, client, False)):
                    link = (source, target, outward, dying)
                    threading.Thread(target=self._carry, args=link, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, outward: bool, dying: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not outward and dying.is_set():
                    break
                if outward and self._is_the_one(data):
                    if self._moment == "before it is sent":
                        break
                    dying.set()
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _is_the_one(self, data: bytes) -> bool:
        if self._moment is None or self._left == 0 or self._mark not in data:
            return False
        self._left -= 1
        self.cuts += 1
        return True
