"""Cron lines: read once, refused with the place of the fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from wakeful.values.errors import InvalidOption
from wakeful.values.schedule import Cron, Timing
from wakeful.values.wording import shown

NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

# What a field may hold, in the order of a line with seconds.
_FIELDS: Final = (
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31, L or LW"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of week", "0 to 7, or SUN to SAT"),
)
_WORD: Final = re.compile(r"\S+")
_SOMETIME: Final = datetime(2024, 1, 1, tzinfo=UTC)
_LONGEST_LINE: Final = 1000


def cron(line: str, tz: str = "UTC") -> Cron:
    """The checked line and zone; an InvalidOption says what is wrong, and where in the line."""
    return Cron(cron_line(line), time_zone(tz))


def fault_in(timing: Timing) -> str | None:
    """What is wrong, and where, with a line or a zone from SQL, where any text passes for one; None: nothing."""
    try:
        if isinstance(timing, Cron):
            cron(timing.line, timing.tz)
    except InvalidOption as fault:
        return str(fault)
    return None


def cron_line(line: object, field: str = "cron") -> str:
    """A line of five fields, or six with seconds in front, or one of the nicknames, such as @daily."""
    if not isinstance(line, str) or not line.strip():
        raise InvalidOption(field, f'is {shown(line)}: write a cron line such as "*/5 * * * *" or "@daily".')
    if len(line) > _LONGEST_LINE:
        raise InvalidOption(field, f"has {len(line)} characters: {_LONGEST_LINE} are the most.")
    if line.strip().startswith("@"):
        return _nickname(line.strip(), field)
    words = list(_WORD.finditer(line))
    if len(words) not in (5, 6):
        raise InvalidOption(
            field, f"is {shown(line)}, with {len(words)} fields: give minute, hour, day of month, month, day of week."
        )
    fields = _FIELDS[6 - len(words) :]
    for place, word in enumerate(words):
        _check_word(line, word, place, fields, field)
    return _comes_at_all(" ".join(word[0] for word in words), field)


def time_zone(name: object, field: str = "tz") -> str:
    """The name of a zone that this machine knows."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidOption(field, f'is {shown(name)}: name a time zone, such as "Europe/Helsinki".')
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise InvalidOption(
            field,
            f"is {shown(name)}, which no time zone here is called: write it as Europe/Helsinki or UTC, and "
            "install the package tzdata where the system has no zones.",
        ) from None
    return name


def moments(line: Cron, after: datetime) -> Iterator[datetime]:
    """The moments that the line names, all later than `after`, in UTC.

    A line whose minute and hour are fixed runs once a day it names: at the end of an hour that the clocks skip, in the
    first of two that they repeat. Lines with a star in either run by the time that passes.
    """
    last = after
    for moment in _walk(line, after):
        found = moment.astimezone(UTC)
        # In the repeated hour the first one is behind us; two skipped moments become the same one.
        if found > last:
            last = found
            yield found


def a_while_before(line: Cron, until: datetime, count: int) -> datetime | None:
    """A moment with at least `count` of the line's between it and `until`; None when it has no such past."""
    last = None
    for number, moment in enumerate(_walk(line, until, reverse=True)):
        last = moment.astimezone(UTC)
        if number >= count:
            return last
    return None


def _walk(line: Cron, start: datetime, *, reverse: bool = False) -> CronSim:
    # Whoever makes a schedule in SQL may write a nickname, too.
    words = NICKNAMES.get(line.line.strip().lower(), line.line)
    return CronSim(words, start.astimezone(ZoneInfo(line.tz)), reverse=reverse)


def _nickname(word: str, field: str) -> str:
    if (line := NICKNAMES.get(word.lower())) is None:
        raise InvalidOption(field, f"is {shown(word)}, which is no nickname: use one of {', '.join(NICKNAMES)}.")
    return line


def _check_word(line: str, word: re.Match[str], place: int, fields: tuple[tuple[str, str], ...], field: str) -> None:
    if _reads(word[0], place, len(fields)):
        return
    at, bad = word.start(), word[0]
    # Of a list, the first term that cannot be read by itself.
    for term in word[0].split(","):
        if not _reads(term, place, len(fields)):
            bad = term or ","
            break
        at += len(term) + 1
    name, holds = fields[place]
    raise InvalidOption(field, f"is {shown(line)}: {shown(bad)} in column {at + 1} is no {name}; use {holds}.")


def _reads(word: str, place: int, count: int) -> bool:
    words = ["*"] * count
    words[place] = word
    try:
        CronSim(" ".join(words), _SOMETIME)
    except CronSimError:
        return False
    # An empty term makes one field less, and some words are more than its parser foresees.
    except (ValueError, TypeError, AssertionError):
        return False
    return bool(word)


def _comes_at_all(line: str, field: str) -> str:
    try:
        next(CronSim(line, _SOMETIME))
    except (CronSimError, StopIteration):
        problem = f"is {shown(line)}, a day that never comes: correct day of month (field 3) or month (field 4)."
        raise InvalidOption(field, problem) from None
    return line
