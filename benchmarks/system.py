"""A contestant: what it is, where it lives, and what may be asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from benchmarks.driver.load import Handler


@dataclass(frozen=True, slots=True)
class Own:
    """Runs in our own environment."""


@dataclass(frozen=True, slots=True)
class Python:
    """Runs in a virtual environment of its own, on our Python version or the next that it takes."""

    packages: tuple[str, ...]
    at_least: tuple[int, int] = (3, 11)


@dataclass(frozen=True, slots=True)
class Node:
    """Runs on Node, with packages of its own; `script` lies beside the system's file."""

    packages: tuple[str, ...]
    script: str
    otherwise: tuple[str, ...] = ()
    """Older versions, for a registry that has not all that the newest need."""


@dataclass(frozen=True, slots=True)
class System:
    """A contestant. What a figure's reader should know of its configuration stands in `settings`."""

    name: str
    title: str
    kind: Literal["ours", "bare", "peer"]
    module: str
    home: Own | Python | Node
    settings: str
    unfinished: str | None = None
    """A query that is true while some job is not finished; None where there is no database to ask."""
    store: Literal["postgres", "redis"] = "postgres"
    handlers: frozenset[Handler] = field(default_factory=lambda: frozenset[Handler](("noop", "sleep")))
    jobs: int = 50_000
    """Jobs in a drain: fewer for one that would take minutes."""
    environment: tuple[tuple[str, str], ...] = ()
    """What tells its driver apart from others of the same module."""
    schedules: bool = False
    """Whether its driver can enqueue for a later moment."""
    only: frozenset[str] | None = None
    """The measurements that it takes part in; None: all that suit it."""
    skips: frozenset[str] = frozenset()
    """Measurements that it does not take part in."""

    @property
    def main_package(self) -> str | None:
        """The package whose version is this system's."""
        if isinstance(self.home, Own):
            return None
        return self.home.packages[0].partition("[")[0].partition(">")[0]
