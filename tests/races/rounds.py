"""Rounds of a race: two or three real sessions let loose at once, thousands of times."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import psycopg

from tests.sessions import Session, sessions

Side: TypeAlias = Callable[[Session], Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """An error of ours that a contender was answered with."""

    sqlstate: str


@dataclass(slots=True)
class Arena:
    """Sessions with a thread each. Whatever error is not ours, a deadlock above all, ends the test."""

    contenders: list[Session]
    pool: ThreadPoolExecutor
    dice: random.Random = field(default_factory=lambda: random.Random(7))

    @classmethod
    @contextmanager
    def of(cls, dsn: str, count: int = 3) -> Iterator[Arena]:
        """As many contenders on one database."""
        with sessions(dsn, count) as contenders, ThreadPoolExecutor(count) as pool:
            yield cls(contenders, pool)

    def race(self, *sides: Side) -> list[Any]:
        """Let the sides loose at about the same time; what each was answered."""
        begun = [
            self.pool.submit(attempt, side, conn, self.dice.random() ** 2 * 0.001)
            for side, conn in zip(sides, self.contenders, strict=False)
        ]
        return [running.result() for running in begun]


def by(act: Callable[..., Any], *arguments: Any, **named: Any) -> Side:
    """A side that does this act, whose first argument is the session."""
    return lambda conn: act(conn, *arguments, **named)


def attempt(side: Side, conn: Session, head_start: float) -> Any:
    """One side's try, a moment later than the others'."""
    time.sleep(head_start)
    try:
        return side(conn)
    except psycopg.Error as refused:
        if not (refused.sqlstate or "").startswith("WF"):
            raise
        return Refused(refused.sqlstate or "")
