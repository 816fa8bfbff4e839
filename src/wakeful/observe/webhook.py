"""Webhooks: JSON documents posted from a thread of their own, so that no worker waits for somebody's server."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

log = logging.getLogger("wakeful.observe")

MOST_WAITING: Final = 10_000
MOST_AT_ONCE: Final = 500
TRIES: Final = 3
PATIENCE_SECONDS: Final = 10.0


class Webhook:
    """Posts what it is given, in order, as `{"kind": [documents]}`. What cannot be delivered is logged and dropped."""

    def __init__(self, url: str, kind: str, *, wait_seconds: float = 1.0) -> None:
        self._url = url
        self._kind = kind
        self._wait = wait_seconds
        self._waiting: queue.Queue[Mapping[str, Any] | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def post(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Soon. Returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"wakeful-{self._kind}", daemon=True)
            self._thread.start()
        for document in documents:
            try:
                self._waiting.put_nowait(document)
            except queue.Full:
                log.error("webhook_full: %s", self._kind, extra={"event": "webhook_full", "kind": self._kind})
                return

    def close(self, seconds: float = 5.0) -> None:
        """Deliver what waits, for at most so long."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(seconds)
            self._thread = None

    def _run(self) -> None:
        over = False
        while not over:
            first = self._waiting.get()
            batch = [] if first is None else [first]
            over = first is None
            while not over and len(batch) < MOST_AT_ONCE and not self._waiting.empty():
                more = self._waiting.get()
                over = more is None
                batch += [] if more is None else [more]
            if batch:
                self._deliver(batch)

    def _deliver(self, batch: Sequence[Mapping[str, Any]]) -> None:
        # Here, because most processes never post anything, and all would pay for the import.
        import urllib.error
        import urllib.request

        body = json.dumps({self._kind: batch}, default=str).encode()
        for attempt in range(TRIES):
            try:
                request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):
                    return
            # Whatever keeps somebody's server from taking it: tried again, then told.
            except Exception as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                problem = error
                if attempt + 1 < TRIES:
                    time.sleep(self._wait * 2**attempt)
        log.error(
            "webhook_failed: %d %s were not delivered: %s",
            len(batch),
            self._kind,
            problem,
            extra={"event": "webhook_failed", "kind": self._kind, "documents": len(batch)},
        )
