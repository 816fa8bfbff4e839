"""Job ids: UUIDv7 (RFC 9562), strictly ascending within a process.

48 bits of Unix milliseconds, then 12 bits of the millisecond's fraction (the RFC's method 3), then 62
random bits. A clock that stands still or goes back is overtaken by counting on, so ids made later sort
later, whichever thread makes them. A forked child starts from fresh random bits: it repeats none of its
parent's ids.
"""

from __future__ import annotations

import os
import struct
from datetime import UTC, datetime, timedelta
from threading import RLock
from time import time_ns
from typing import Final
from uuid import UUID, SafeUUID

from wakeful.values.errors import InvalidOption
from wakeful.values.wording import shown

_VERSION_AND_VARIANT: Final = 0x7 << 76 | 0b10 << 62
_RANDOM_BITS: Final = (1 << 62) - 1
_POOL: Final = 512
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_new = object.__new__
_set = object.__setattr__
_unknown = SafeUUID.unknown


class _Sequence:
    """The last moment given out, in 4096ths of a millisecond, and random words not yet used."""

    __slots__ = ("last", "lock", "words")

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self.words: list[int] = []
        # Re-entrant: a signal handler or finaliser may ask for an id while its own thread is making one.
        self.lock = RLock()

    def next(self) -> UUID:
        """The id of a moment of its own, with a random word."""
        with self.lock:
            moment = (time_ns() << 12) // 1_000_000
            if moment <= self.last:
                moment = self.last + 1
            self.last = moment
            if not self.words:
                self.words.extend(_random_words(_POOL))
            return _build(moment, self.words.pop())

    def reserve(self, count: int) -> int:
        """The first of `count` moments that nobody else is given."""
        with self.lock:
            first = max((time_ns() << 12) // 1_000_000, self.last + 1)
            self.last = first + count - 1
            return first


def _random_words(count: int) -> tuple[int, ...]:
    return struct.unpack(f"{count}Q", os.urandom(8 * count))


def _build(moment: int, word: int) -> UUID:
    # UUID.__init__ spends most of its time telling its seven arguments apart.
    made = _new(UUID)
    _set(made, "int", moment >> 12 << 80 | (moment & 0xFFF) << 64 | _VERSION_AND_VARIANT | word & _RANDOM_BITS)
    _set(made, "is_safe", _unknown)
    return made


_sequence = _Sequence()


def _restart() -> None:
    global _sequence
    # A whole new one: another thread of the parent may have held the lock at the moment of the fork.
    _sequence = _Sequence(_sequence.last)


os.register_at_fork(after_in_child=_restart)


def new_id() -> UUID:
    """An id greater than every id this process has made so far."""
    return _sequence.next()


def new_ids(count: int) -> list[UUID]:
    """`count` ascending ids at once, none made by anyone else between them."""
    if count < 0:
        raise InvalidOption("count", f"is {count}, but cannot be negative: ask for zero or more ids.")
    first = _sequence.reserve(count) if count else 0
    return [_build(moment, word) for moment, word in enumerate(_random_words(count), first)]


def id_time(id: UUID) -> datetime:
    """When the id was made, by its maker's clock, to the millisecond."""
    if id.version != 7:
        raise InvalidOption("id", f"is {shown(str(id))}, which carries no time: give a UUIDv7.")
    return _EPOCH + timedelta(milliseconds=id.int >> 80)
