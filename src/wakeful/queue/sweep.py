"""Doing something to all that a filter means: page by page down the ids, each portion a transaction of its own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from wakeful.queue.script import Script, Sleep
from wakeful.statements import operate
from wakeful.statements.statement import Statement
from wakeful.values.errors import DatabaseUnavailable, WakefulError

AT_ONCE: Final = 200
TRIES_ON_LOCKED_ROWS: Final = 20

Page = Callable[[int, UUID | None], Statement[Sequence[UUID]]]
"""The next so many ids that are meant, behind this one."""
Portion = Callable[[Sequence[UUID]], Script[int]]
"""Does it to these; the answer is to how many."""
Act = Callable[[Sequence[UUID]], Statement[int]]
Told = Callable[[int], None]
"""Is told how many more were seen to."""
Refused = Callable[[WakefulError], None]
"""Is told why one of them could not be."""


def not_told(_: object) -> None:
    """Nobody wants to know."""


def sweep(page: Page, portion: Portion, *, rate: float | None = None, told: Told = not_told) -> Script[int]:
    """Do it to all that are meant, `rate` a second at most; the answer is to how many.

    Each is seen to once, and what was done stays done: who is interrupted calls it again. What comes meanwhile has
    newer ids, and is left alone.
    """
    began, seen, done, after, size = time.monotonic(), 0, 0, None, portion_size(rate)
    while True:
        ids: Sequence[UUID] = yield page(size, after)
        if not ids:
            return done
        done += yield from portion(ids)
        told(len(ids))
        seen, after = seen + len(ids), ids[-1]
        yield from keep_to(rate, seen, began)


def portion_size(rate: float | None) -> int:
    """A tenth of a second's worth, so that a pace is a pace and not a bang every second."""
    return AT_ONCE if rate is None else max(1, min(AT_ONCE, int(rate / 10)))


def keep_to(rate: float | None, seen: int, began: float) -> Script[None]:
    """Wait until so many may have been seen to since `began`."""
    if rate is not None and (ahead := seen / rate - (time.monotonic() - began)) > 0:
        yield Sleep(None, ahead)


def together(ids: Sequence[UUID], act: Act, refused: Refused) -> Script[int]:
    """One statement for all of them; where it is refused, one for each, so that one bad job stops no other.

    Without a database nothing is refused: DatabaseUnavailable is the caller's.
    """
    try:
        return int((yield act(ids)))
    except DatabaseUnavailable:
        # It says nothing of these jobs: to pass them over would tell of an end that was not reached.
        raise
    except WakefulError as error:
        if len(ids) == 1:
            refused(error)
            return 0
    done = 0
    for id in ids:
        done += yield from together([id], act, refused)
    return done


def cancelling(reason: str | None, actor: str | None, answers: Counter[str]) -> Portion:
    """Cancels; `answers` counts what became of each. A row that someone holds is tried again for a second."""

    def portion(ids: Sequence[UUID]) -> Script[int]:
        left = list(ids)
        for _ in range(TRIES_ON_LOCKED_ROWS):
            told: dict[UUID, str] = yield operate.cancel(left, reason, actor)
            answers.update(answer for answer in told.values() if answer != "busy")
            left = [id for id, answer in told.items() if answer == "busy"]
            if not left:
                break
            yield Sleep(None, 0.05)
        answers["busy"] += len(left)
        return len(ids) - len(left)

    return portion
