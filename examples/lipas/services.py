"""The outside world, on a port of this machine: services that fail as long as they are told to."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Services:
    """What has been asked of them, and which of them are down."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.down: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.delivered: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def answer(self, name: str, key: str, body: dict[str, object]) -> int:
        """The status of one request. A repeat with the same key is answered, and not delivered again."""
        with self._lock:
            self.calls[name] += 1
            if name in self.down:
                return 503
            if body.get("bad"):
                return 422
            keys = self.delivered.setdefault(name, [])
            if key not in keys:
                keys.append(key)
            return 200


@contextmanager
def services() -> Iterator[Services]:
    """They answer while the block runs."""

    class Requests(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
            status = world.answer(self.path.strip("/"), self.headers["idempotency-key"], body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    world = Services(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
