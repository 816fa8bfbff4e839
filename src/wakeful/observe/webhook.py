"""Webhooks: JSON documents posted from a thread of their own, so that no worker waits for somebody's server."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

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
            name = f"wakeful-{self._kind}"
            self._thread = threading.Thread(target=self._run, args=(self._waiting,), name=name, daemon=True)
            self._thread.start()
        for document in documents:
            try:
                self._waiting.put_nowait(document)
            except queue.Full:
                log.error("webhook_full: %s", self._kind, extra={"event": "webhook_full", "kind": self._kind})
                return

    def close(self, seconds: float = 5.0) -> None:
        """Deliver what waits, for at most so long; what is left then is logged and dropped."""
        if self._thread is None:
            return
        deadline = time.monotonic() + seconds
        # The thread keeps the queue that it has: one that outlasts its time takes nothing that is posted later.
        waiting, self._waiting = self._waiting, queue.Queue(MOST_WAITING)
        thread, self._thread = self._thread, None
        with suppress(queue.Full):
            waiting.put(None, timeout=seconds)
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            self._drop(waiting)

    def _drop(self, waiting: queue.Queue[Mapping[str, Any] | None]) -> None:
        dropped = 0
        with suppress(queue.Empty):
            while True:
                dropped += waiting.get_nowait() is not None
        # For the thread, which may have its hands full, and ends when it finds this.
        waiting.put_nowait(None)
        if dropped:
            self._failed(dropped, "the time to close was over")

    def _run(self, waiting: queue.Queue[Mapping[str, Any] | None]) -> None:
        over = False
        while not over:
            first = waiting.get()
            batch = [] if first is None else [first]
            over = first is None
            while not over and len(batch) < MOST_AT_ONCE and not waiting.empty():
                more = waiting.get()
                over = more is None
                batch += [] if more is None else [more]
            if batch:
                self._deliver(batch)

    def _deliver(self, batch: Sequence[Mapping[str, Any]]) -> None:
        # Here, because most processes never post anything, and all would pay for the import.
        from urllib.error import HTTPError
        from urllib.request import Request

        body = json.dumps({self._kind: batch}, default=str).encode()
        for attempt in range(TRIES):
            try:
                request = Request(self._url, body, {"Content-Type": "application/json"})
                with _opener().open(request, timeout=PATIENCE_SECONDS):
                    return
            # Whatever keeps somebody's server from taking it: tried again, then told.
            except Exception as error:
                problem = str(error)
                if isinstance(error, HTTPError):
                    error.close()
                    if 300 <= error.code < 400 and (moved_to := error.headers.get("Location")):
                        problem += f": it has moved to {_plain(moved_to, self._url)}, so set that address"
                if attempt + 1 < TRIES:
                    time.sleep(self._wait * 2**attempt)
        self._failed(len(batch), problem)

    def _failed(self, documents: int, problem: str) -> None:
        log.error(
            "webhook_failed: %d %s were not delivered: %s",
            documents,
            self._kind,
            problem,
            extra={"event": "webhook_failed", "kind": self._kind, "documents": documents},
        )


@cache
def _opener() -> OpenerDirector:
    """As urllib's own, for HTTP only, and without redirects: there it would follow with a GET that carries nothing."""
    from urllib import request

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.UnknownHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _plain(address: str, base: str) -> str:
    """The address without what may be secret in it, fit for a log."""
    from urllib.parse import quote, urljoin, urlsplit

    try:
        found = urlsplit(urljoin(base, address))
    except ValueError:
        return "an address that cannot be read"
    return quote(f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path}", safe="/:%[]@!$&'()*+,;=~")
