"""A thread's hearing: one LISTEN connection, opened again when it breaks, honest about whether it hears."""

from __future__ import annotations

import logging
import math
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, Protocol

from wakeful.values.errors import WakefulError
from wakeful.values.wakeup import Canary, Notice, read_notice

log = logging.getLogger("wakeful.queue")

LONGEST_WAIT: Final = 15.0
CANARY_MUST_BE_HEARD_WITHIN: Final = 5.0
CANARY_EVERY: Final = 20.0


class Ear(Protocol):
    """A subscribed connection."""

    def fileno(self) -> int: ...

    def take(self) -> list[str]: ...

    def close(self) -> None: ...


class Hearing:
    """Belongs to one thread; only `interrupt`, `when_ready` and `hears` are for others.

    `call` sends a canary from another connection; `heard` takes each notice; `back` is called when something
    may have been missed, and the table must be looked at.
    """

    def __init__(
        self,
        open_ear: Callable[[], Ear] | None,
        call: Callable[[int], None],
        heard: Callable[[Notice], None],
        back: Callable[[], None],
    ) -> None:
        self.hears = False
        self._ready = threading.Event()
        self._bells: deque[Future[None]] = deque()
        self._open_ear = open_ear
        self._call = call
        self._heard = heard
        self._back = back
        self._ear: Ear | None = None
        self._fileno = -1
        self._open_at = 0.0 if open_ear else math.inf
        self._wait = 0.1
        self._number = 0
        self._call_at = math.inf
        self._deaf_at = math.inf
        self._selector = selectors.DefaultSelector()
        self._near, self._far = socket.socketpair()
        for end in (self._near, self._far):
            end.setblocking(False)
        self._selector.register(self._near, selectors.EVENT_READ)

    def interrupt(self) -> None:
        """End a `wait` that is under way, from any thread."""
        with suppress(OSError):  # Full: it is interrupted already. Closed: there is nothing to interrupt.
            self._far.send(b"!")

    def when_ready(self) -> Future[None]:
        """Done once the connection is open, or could not be opened."""
        bell: Future[None] = Future()
        self._bells.append(bell)
        if self._ready.is_set():
            self._ring()
        return bell

    def attend(self) -> None:
        """Open the connection where there is none, and find out whether it hears. Connecting may block."""
        now = time.monotonic()
        if self._ear is None and self._open_at <= now:
            self._open()
        if self._deaf_at <= now:
            self._deaf_at = math.inf
            self._turn_deaf()
        if self._call_at <= now:
            self._send_canary()
        if not self._ready.is_set():
            self._ready.set()
            self._ring()

    def wait(self, until: float) -> None:
        """Until something is heard, interrupted or due."""
        moment = min(until, self._deaf_at, self._call_at, self._open_at if self._ear is None else math.inf)
        seconds = moment - time.monotonic()
        for key, _ in self._selector.select(None if math.isinf(seconds) else max(0.0, seconds)):
            if key.fd != self._fileno:
                with suppress(BlockingIOError):
                    self._near.recv(4096)
            else:
                self._listen()

    def close(self) -> None:
        """Hang up."""
        self._ready.set()
        self._ring()
        self._drop()
        self._selector.close()
        self._near.close()
        self._far.close()

    def _ring(self) -> None:
        while self._bells:
            # Two threads may empty the deque between them; each bell is rung by the one that got it.
            with suppress(IndexError):
                bell = self._bells.popleft()
                if bell.set_running_or_notify_cancel():
                    bell.set_result(None)

    def _open(self) -> None:
        assert self._open_ear is not None
        try:
            self._ear = self._open_ear()
        except WakefulError as error:
            log.debug("no listener: %s", error)
            self._retry_later()
            return
        self._wait = 0.1
        # By number: a connection that broke cannot tell it any more.
        self._fileno = self._ear.fileno()
        self._selector.register(self._fileno, selectors.EVENT_READ)
        self.hears = True
        self._call_at = time.monotonic()
        if self._number:
            log.info("listener_back", extra={"event": "listener_back"})
            self._back()

    def _listen(self) -> None:
        assert self._ear is not None
        try:
            payloads = self._ear.take()
        except WakefulError as error:
            log.warning("listener_lost: %s", error, extra={"event": "listener_lost"})
            self._drop()
            self._retry_later()
            return
        for payload in payloads:
            notice = read_notice(payload)
            if isinstance(notice, Canary):
                self._turn_hearing()
            else:
                self._heard(notice)

    def _drop(self) -> None:
        self.hears = False
        self._call_at = self._deaf_at = math.inf
        if self._ear is not None:
            self._selector.unregister(self._fileno)
            self._ear.close()
            self._ear, self._fileno = None, -1

    def _retry_later(self) -> None:
        self._open_at = time.monotonic() + self._wait * random.uniform(0.5, 1.5)
        self._wait = min(self._wait * 2, LONGEST_WAIT)

    def _send_canary(self) -> None:
        self._number += 1
        self._call_at = math.inf
        try:
            self._call(self._number)
            self._deaf_at = time.monotonic() + CANARY_MUST_BE_HEARD_WITHIN
        except WakefulError as error:
            log.debug("no canary was sent: %s", error)
            self._call_at = time.monotonic() + CANARY_EVERY

    def _turn_hearing(self) -> None:
        self._deaf_at = math.inf
        if not self.hears:
            self.hears, self._call_at = True, math.inf
            log.info("listener_back", extra={"event": "listener_back"})

    def _turn_deaf(self) -> None:
        self._call_at = time.monotonic() + CANARY_EVERY
        if self.hears:
            self.hears = False
            log.warning(
                "listener_deaf: notifications do not arrive (a pooler in between?); polling instead. "
                "Set WAKEFUL_LISTEN_DSN to a direct connection to be woken again.",
                extra={"event": "listener_deaf"},
            )
            self._back()
