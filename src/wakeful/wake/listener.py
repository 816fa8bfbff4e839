"""The listener: one LISTEN connection a process, kept alive, and honest about whether it hears."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Protocol

from wakeful.values.errors import DatabaseUnavailable
from wakeful.values.wakeup import Canary, Notice, read_notice

log = logging.getLogger("wakeful.wake")

LONGEST_WAIT = 15.0
# A connection that hears nothing for so long is opened anew: a proxy may keep one end alive whose other end is gone.
DEAF_SECONDS = 30.0


class Heard(Protocol):
    """A notification."""

    @property
    def channel(self) -> str: ...

    @property
    def payload(self) -> str: ...


class Ear(Protocol):
    """A subscribed connection."""

    async def listen(self, hear: Callable[[Heard], None], /) -> None: ...

    async def close(self) -> None: ...


class Listener:
    """Keeps an ear open, passes on what it hears, and tells from canaries whether it is deaf.

    `open_ear` subscribes; `heard` takes each notice; `changed` is called whenever it begins or ceases to hear, because
    what was notified meanwhile is lost for good and the table must be looked at. `private` is a channel of which nobody
    else knows.
    """

    def __init__(
        self,
        open_ear: Callable[[], Awaitable[Ear]],
        heard: Callable[[Notice], None],
        changed: Callable[[], None],
        private: str | None = None,
    ) -> None:
        self._open_ear = open_ear
        self._heard = heard
        self._changed = changed
        self._private = private
        self._overdue_at: float | None = None
        self._deaf = False
        self._patience: asyncio.Timeout | None = None
        self.connected = False
        self.losses = 0

    @property
    def hears(self) -> bool:
        """Whether pokes can be relied on: while not, shorter polls take over."""
        return self.connected and not self._deaf

    def expect_canary(self) -> None:
        """A canary is about to be sent: it may be heard before its sender is answered."""
        if self._overdue_at is None and self.connected:
            self._overdue_at = inf

    def canary_sent(self, overdue_at: float | None) -> None:
        """It must be heard by then, on the loop's clock; None: it was not sent after all."""
        if self._overdue_at == inf:
            self._overdue_at = overdue_at

    def check(self, now: float) -> None:
        """Find out whether the last canary is overdue."""
        if self._overdue_at is not None and self._overdue_at <= now and self.connected:
            self._overdue_at = None
            if not self._deaf:
                self._deaf = True
                self._be_patient(now + DEAF_SECONDS)
                log.warning(
                    "listener_deaf: notifications do not arrive (a pooler in between?); polling instead. "
                    "Set WAKEFUL_LISTEN_DSN to a direct connection to be woken again.",
                    extra={"event": "listener_deaf"},
                )
                self._changed()

    @property
    def check_at(self) -> float | None:
        """When `check` has something to find out."""
        return None if self._overdue_at == inf else self._overdue_at

    async def run(self) -> None:
        """Listen for ever. Reconnects with jittered exponential backoff."""
        wait = 0.1
        while True:
            try:
                await self._listen()
            except DatabaseUnavailable as error:
                if self.connected or not self.losses:
                    wait = 0.1
                    self.losses += 1
                    self.connected = False
                    log.warning("listener_lost: polling instead. %s", error, extra={"event": "listener_lost"})
                    self._changed()
            finally:
                self.connected = False
                # What was sent to a connection that is gone will never be heard: nobody need look out for it.
                self._overdue_at = None
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(wait * 2, LONGEST_WAIT)

    async def _listen(self) -> None:
        ear = await self._open_ear()
        try:
            self.connected = True
            self._overdue_at = None
            if self.losses:
                log.info("listener_back", extra={"event": "listener_back"})
            self._changed()
            with suppress(TimeoutError):
                async with asyncio.timeout(DEAF_SECONDS if self._deaf else None) as self._patience:
                    await ear.listen(self._hear)
        finally:
            self._patience = None
            await ear.close()

    def _be_patient(self, until: float | None) -> None:
        """Keep this connection until then, for ever if None."""
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(until)

    def _hear(self, heard: Heard) -> None:
        notice = read_notice(heard.payload, heard.channel == self._private)
        if isinstance(notice, Canary):
            self._overdue_at = None
            if self._deaf:
                self._deaf = False
                self._be_patient(None)
                log.info("listener_back", extra={"event": "listener_back"})
                self._changed()
        else:
            self._heard(notice)
