"""The end of the demo: every job accounted for, or a sentence about what does not add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wakeful.edges.demo.gauge import Books
from wakeful.edges.demo.scene import Scene


@dataclass(frozen=True, slots=True)
class Account:
    """One equation: what it says, its two sides, and whether they are equal."""

    text: str
    left: int
    right: int

    @property
    def holds(self) -> bool:
        """Whether it adds up."""
        return self.left == self.right


def accounts(enqueued: int, books: Books) -> list[Account]:
    """What must be so, whatever happened on the way."""
    over = books.completed + books.dead + books.cancelled
    parts = f"{books.completed:,} completed + {books.dead:,} dead + {books.cancelled:,} cancelled"
    effects, different = f"{books.effects:,} effects", books.jobs_with_effect
    return [
        Account(f"{enqueued:,} jobs enqueued = {parts}", enqueued, over),
        Account(f"{books.completed:,} completed = {effects}: none lost", books.completed, books.effects),
        Account(f"{effects} of {different:,} different jobs: none twice", books.effects, different),
        Account(f"{books.slots:,} slots of a schedule = {books.slot_jobs:,} jobs", books.slots, books.slot_jobs),
        Account(f"{books.orders:,} orders = {books.order_jobs:,} jobs made with them", books.orders, books.order_jobs),
    ]


def summary(scene: Scene, books: Books) -> Iterator[tuple[bool, str]]:
    """The lines to print at the end, each with whether it is as it should be."""
    for account in accounts(scene.enqueued, books):
        yield account.holds, account.text
    yield True, f"{books.rescued:,} jobs rescued from a killed worker, {books.retried:,} mails sent at a second attempt"
    if books.start_ms is not None:
        median, slow = books.start_ms
        yield True, f"orders started {median:.1f} ms after they were placed, 99 in 100 within {slow:.1f} ms"
    yield True, f"{scene.elapsed:.0f} seconds, {scene.best_rate:,.0f} jobs a second at most"
