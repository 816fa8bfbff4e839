"""What a fault is: something done to a stage, again and again, that must cost nobody a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tests.chaos.evidence import WITNESS
from tests.chaos.forgetting import Forgetting
from tests.chaos.server import Server, private_server
from tests.chaos.stage import Stage


class Fault:
    """Named, and seeded by the stage's dice. `inject` does it, ends it, and returns how often it was done."""

    name: ClassVar[str]
    # What is done, for the report.
    says: ClassVar[str]
    # Seconds. Long enough for a busy machine to keep, where the fault does not have to wait for its end.
    lease: ClassVar[float] = 4.0
    # Settings of the server.
    settings: ClassVar[Mapping[str, str]] = {}
    # Seconds between two of them.
    pause: ClassVar[tuple[float, float]] = (0.1, 0.8)
    # How much longer than others it goes on: hundreds of times, or for minutes.
    share: ClassVar[float] = 1.0
    # Whether a holder may lose its jobs by it.
    takes_jobs: ClassVar[bool] = True

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.over = False
        # What the database was made to forget, if anything.
        self.forgetting: Forgetting | None = None

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot be done on this machine; None when it can."""
        return None

    @classmethod
    @contextmanager
    def place(cls, folder: Path) -> Iterator[Path]:
        """Where the server's data goes."""
        yield folder

    @classmethod
    @contextmanager
    def served(cls, place: Path) -> Iterator[tuple[str, Server | None]]:
        """A migrated database with a witness: how to reach it, and its server where that is one of ours."""
        with private_server(place / "server", tables=WITNESS, **cls.settings) as server:
            yield server.dsn, server

    def prepare(self) -> None:
        """Before the workers start."""

    def begin(self) -> None:
        """Before the first time, when the throughput without it is known."""

    def inject(self) -> int:
        """Do it."""
        raise NotImplementedError

    def heal(self) -> None:
        """What is left of it ends."""
        self.stage.fill()

    def notes(self) -> list[str]:
        """What the report says of it beside its numbers."""
        return []

    def complaints(self) -> list[str]:
        """What it saw itself that must not be."""
        return []

    def end(self) -> None:
        """The stage is taken down."""


class Nothing(Fault):
    """No fault at all: what is measured against, and where nothing may start twice."""

    name = "none"
    says = "nothing is done to anyone"
    lease = 30.0
    takes_jobs = False

    def inject(self) -> int:
        """Let time pass."""
        return 0
