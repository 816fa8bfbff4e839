"""The loop's view of the listener: whether pokes can be relied on."""

from __future__ import annotations

from wakeful.wake.listener import Listener


class Ears:
    """Without a listener nobody is asked to poke, and the worker polls."""

    listens = False

    @property
    def hears(self) -> bool:
        """Whether pokes arrive, as far as is known."""
        return False

    @property
    def check_at(self) -> float | None:
        """When `check` has something to find out."""
        return None

    def expect_canary(self) -> None:
        """A canary is about to be sent."""

    def canary_sent(self, overdue_at: float | None) -> None:
        """It must be heard by then, on the loop's clock; None: it was not sent after all."""

    def check(self, now: float) -> None:
        """Find out whether it is overdue."""


class ListenerEars(Ears):
    """With one."""

    listens = True

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    @property
    def hears(self) -> bool:
        """As the canaries tell."""
        return self._listener.hears

    @property
    def check_at(self) -> float | None:
        """When the canary is overdue."""
        return self._listener.check_at

    def expect_canary(self) -> None:
        """As the listener's."""
        self._listener.expect_canary()

    def canary_sent(self, overdue_at: float | None) -> None:
        """As the listener's."""
        self._listener.canary_sent(overdue_at)

    def check(self, now: float) -> None:
        """As the listener's."""
        self._listener.check(now)
