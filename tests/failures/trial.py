"""What a trial is given, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.failures.sizes import Sizes
from tests.sessions import Session, session
from tests.worker.processes import Fleet, Journal, fleet_on


@dataclass(frozen=True, slots=True)
class Site:
    """A migrated database of the trial's own, a folder for its logs, and how much to try."""

    dsn: str
    folder: Path
    sizes: Sizes
    dice: Random = field(default_factory=lambda: Random(7))

    @property
    def journal(self) -> Journal:
        """Where the jobs of this trial write what they do, fsynced."""
        return Journal(self.folder / "journal")

    @contextmanager
    def at_work(self) -> Iterator[tuple[Session, Fleet]]:
        """A session, and worker processes of `tests.failures.apps`, killed at the end."""
        with session(self.dsn) as db, fleet_on(self.dsn, self.journal) as fleet:
            yield db, fleet


@dataclass(frozen=True, slots=True)
class Finding:
    """What was seen (words and numbers to print), and what of it must not be."""

    seen: Mapping[str, object]
    broken: list[str]


Trial = Callable[[Site], Finding]


def broken(**claims: bool) -> list[str]:
    """The claims that do not hold, as words."""
    return [claim.replace("_", " ") for claim, holds in claims.items() if not holds]
