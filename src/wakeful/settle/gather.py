"""Settlements on their way: gathered while the last flush is under way, so that each flush is a set."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from wakeful.values.settlement import Completion, Ending, Settlement

# More than this in one statement gains nothing and delays the first of them.
MOST = 1000


class Gathering:
    """What is to be written next. Nothing leaves it for good before its flush is known to have committed."""

    def __init__(self) -> None:
        self._done: list[Completion] = []
        self._endings: list[Ending] = []

    def add(self, settlement: Settlement) -> None:
        """Take one more."""
        if isinstance(settlement, Completion):
            self._done.append(settlement)
        else:
            self._endings.append(settlement)

    def __len__(self) -> int:
        return len(self._done) + len(self._endings)

    def claims(self) -> set[tuple[UUID, int]]:
        """The jobs whose settlements are here, by id and epoch."""
        everything: list[Settlement] = [*self._done, *self._endings]
        return {(one.id, one.epoch) for one in everything}

    def take_done(self) -> list[Completion]:
        """The completions to write now."""
        taken, self._done = self._done[:MOST], self._done[MOST:]
        return taken

    def take_endings(self) -> list[Ending]:
        """The other settlements to write now."""
        taken, self._endings = self._endings[:MOST], self._endings[MOST:]
        return taken

    def put_back(self, settlements: Sequence[Settlement]) -> None:
        """Their flush did not commit, as far as is known: write them again. The fence makes that harmless."""
        for settlement in settlements:
            self.add(settlement)
