"""Which slots of a schedule are due, and which is next. Only the database's clock decides: `now` is read there."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from wakeful.tend.cron import a_while_before, moments
from wakeful.values.schedule import Cron, DueSchedule, Every, Firing, Timing

GRACE: Final = timedelta(minutes=1)
"""With misfire="skip", a slot that is later than this has been missed."""

# Looking back may pass over what looking forward sees where the clocks change: by no more than this.
_MARGIN: Final = timedelta(hours=3)


def firing(due: DueSchedule) -> Firing:
    """The slots to take by the misfire policy, and the next."""
    after = due.since if due.last_slot is None else max(due.since, due.last_slot)
    match due.misfire:
        case "all":
            slots = newest_slots(due.timing, due.anchor, after, due.now, due.cap)
        case "latest":
            slots = newest_slots(due.timing, due.anchor, after, due.now, 1)
        case "skip":
            newest = newest_slots(due.timing, due.anchor, after, due.now, 1)
            slots = [slot for slot in newest if due.now - slot <= GRACE]
    return Firing(due.name, due.revision, due.last_slot, tuple(slots), next_slot(due.timing, due.anchor, due.now))


def newest_slots(timing: Timing, anchor: datetime, after: datetime, until: datetime, most: int) -> list[datetime]:
    """The newest slots, `most` at most, that are later than `after` and not later than `until`; oldest first."""
    match timing:
        case Every(interval):
            first = max((after - anchor) // interval + 1, 1)
            last = (until - anchor) // interval
            return [anchor + interval * number for number in range(max(first, last - most + 1), last + 1)]
        case Cron():
            # Years may have passed: what is far behind is not walked through.
            back = a_while_before(timing, until, most)
            start = after if back is None else max(after, back - _MARGIN)
            return list(deque(takewhile(lambda slot: slot <= until, moments(timing, start)), maxlen=most))


def next_slot(timing: Timing, anchor: datetime, after: datetime) -> datetime | None:
    """The first slot later than `after`; None when none will come."""
    match timing:
        case Every(interval):
            return anchor + interval * max((after - anchor) // interval + 1, 1)
        case Cron():
            return next(moments(timing, after), None)
