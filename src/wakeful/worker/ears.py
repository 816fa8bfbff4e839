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

    def expect_canary(self, number: int, by: float) -> None:
        """A canary is being sent; it must be heard by `by` on the loop's clock."""

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

    def expect_canary(self, number: int, by: float) -> None:
        """As the listener's."""
        self._listener.expect_canary(number, by)

    def check(self, now: float) -> None:
        """As the listener's."""
        self._listener.check(now)
