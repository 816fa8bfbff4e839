"""When a failed job starts again: retry policies as values.

`policy.delay(attempt)` answers, after `attempt` starts, how long to wait before the next one; None means
there is none. A policy decides waits; the number of starts is the job's `max_attempts`, which `Steps` and
`Never` imply themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol, runtime_checkable

from wakeful.values.declaring import naming_the_task
from wakeful.values.duration import DurationLike, duration, nonnegative_duration
from wakeful.values.errors import InvalidOption
from wakeful.values.number import real_number, whole_number
from wakeful.values.wording import shown

DEFAULT_MAX_ATTEMPTS: Final = 5
MOST_ATTEMPTS: Final = 10_000

Draw = Callable[[], float]
"""A source of chance: evenly spread numbers from 0 up to, but not including, 1."""


@runtime_checkable
class RetryPolicy(Protocol):
    """What every policy answers; `starts` is how many it allows, None where max_attempts decides."""

    @property
    def starts(self) -> int | None: ...

    def delay(self, attempt: int, draw: Draw = random.random) -> timedelta | None:
        """The wait after `attempt` starts (0: before the first), or None when there is no further start."""
        ...


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """Waits that grow by `factor` from `base` up to `cap`, spread by chance.

    Each wait is drawn evenly from ± `jitter` (a share, from 0 to 1) around itself, and is never above the
    cap.
    """

    base: timedelta
    factor: float
    cap: timedelta
    jitter: float

    def __init__(self, base: DurationLike = 1, factor: float = 2, cap: DurationLike = 300, jitter: float = 0.1) -> None:
        with naming_the_task():
            least, most = duration(base, "base"), duration(cap, "cap")
            if least <= timedelta(0):
                raise InvalidOption("base", f"is {shown(base)}, but must be more than zero: Fixed(0) never waits.")
            if most < least:
                raise InvalidOption("cap", f"is {shown(cap)}, below the base of {shown(base)}: give at least the base.")
            object.__setattr__(self, "base", least)
            object.__setattr__(self, "factor", real_number(factor, "factor", 1))
            object.__setattr__(self, "cap", most)
            object.__setattr__(self, "jitter", real_number(jitter, "jitter", 0, 1))

    @property
    def starts(self) -> None:
        return None

    def delay(self, attempt: int, draw: Draw = random.random) -> timedelta | None:
        if _started(attempt) == 0:
            return timedelta(0)
        try:
            wait = min(self.base * self.factor ** (attempt - 1), self.cap)
        except OverflowError:
            wait = self.cap
        return _spread(wait, self.jitter, self.cap, draw)


@dataclass(frozen=True, slots=True, init=False)
class Steps:
    """The nth wait stands before start n: `Steps([0, 30, 300])` is three starts, then dead."""

    waits: tuple[timedelta, ...]

    def __init__(self, waits: Iterable[DurationLike]) -> None:
        with naming_the_task():
            listed = () if isinstance(waits, str) else tuple(waits)
            if not listed:
                raise InvalidOption("waits", f"is {shown(waits)}: list at least one wait, such as Steps([0, 30, 300]).")
            spans = tuple(nonnegative_duration(wait, f"waits[{index}]") for index, wait in enumerate(listed))
            object.__setattr__(self, "waits", spans)

    @property
    def starts(self) -> int:
        return len(self.waits)

    def delay(self, attempt: int, draw: Draw = random.random) -> timedelta | None:
        return self.waits[attempt] if _started(attempt) < len(self.waits) else None


@dataclass(frozen=True, slots=True, init=False)
class Fixed:
    """The same wait before every further start, spread evenly over ± `jitter` of itself."""

    wait: timedelta
    jitter: float

    def __init__(self, wait: DurationLike, jitter: float = 0.0) -> None:
        with naming_the_task():
            object.__setattr__(self, "wait", nonnegative_duration(wait, "wait"))
            object.__setattr__(self, "jitter", real_number(jitter, "jitter", 0, 1))

    @property
    def starts(self) -> None:
        return None

    def delay(self, attempt: int, draw: Draw = random.random) -> timedelta | None:
        if _started(attempt) == 0:
            return timedelta(0)
        return _spread(self.wait, self.jitter, self.wait * 2, draw)


@dataclass(frozen=True, slots=True)
class Never:
    """One start, and dead if it fails."""

    @property
    def starts(self) -> int:
        return 1

    def delay(self, attempt: int, draw: Draw = random.random) -> timedelta | None:
        return timedelta(0) if _started(attempt) == 0 else None


@dataclass(frozen=True, slots=True)
class ByFunction:
    """The user's own function of the number of starts so far; it returns a duration, or None for dead."""

    function: Callable[[int], DurationLike | None]

    @property
    def starts(self) -> None:
        return None

    def delay(self, attempt: int, draw: Draw = random.random) -> timedelta | None:
        if _started(attempt) == 0:
            return timedelta(0)
        wait = self.function(attempt)
        return None if wait is None else nonnegative_duration(wait, "the retry function's result")


DEFAULT_RETRY: Final = Exponential()

RetryLike = RetryPolicy | Callable[[int], DurationLike | None]


def retry_policy(value: RetryLike, field: str = "retry") -> RetryPolicy:
    """The policy that a task's `retry=` means: a policy as it is, a function wrapped."""
    if isinstance(value, type):
        raise InvalidOption(field, f"is the class {value.__name__}: call it, as in {value.__name__}(…).")
    if isinstance(value, RetryPolicy):
        return value
    if callable(value):
        return ByFunction(value)
    raise InvalidOption(
        field,
        f"is {shown(value)}: give Exponential(), Steps([0, 30, 300]), Fixed(30), Never() or a function.",
    )


def starts_allowed(policy: RetryPolicy, *, max_attempts: int | None = None, max_retries: int | None = None) -> int:
    """How often a job may start: `max_attempts`, or `max_retries` + 1, or what the policy implies, or 5."""
    if max_attempts is not None and max_retries is not None:
        raise InvalidOption("max_retries", "is given beside max_attempts, and both say how often to start: give one.")
    if max_retries is not None:
        return whole_number(max_retries, "max_retries", 0, MOST_ATTEMPTS - 1) + 1
    if max_attempts is not None:
        return whole_number(max_attempts, "max_attempts", 1, MOST_ATTEMPTS)
    return policy.starts or DEFAULT_MAX_ATTEMPTS


def _started(attempt: int) -> int:
    return whole_number(attempt, "attempt", 0)


def _spread(wait: timedelta, jitter: float, most: timedelta, draw: Draw) -> timedelta:
    # Evenly over what is left below the cap: clamping afterwards would bring half a herd back at one moment.
    if not jitter:
        return wait
    low, high = wait * (1 - jitter), min(wait * (1 + jitter), most)
    return low + (high - low) * draw()
