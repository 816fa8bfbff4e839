"""What is said about services, tasks and queues that holds over the whole fleet: breakers, limits, shares.

All of it is written to the database by workers as they start, and obeyed where jobs are claimed. None stands for what
nobody has said.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Final, TypedDict, TypeVar

from wakeful.values.duration import DurationLike, duration, positive_duration
from wakeful.values.errors import InvalidOption
from wakeful.values.names import label
from wakeful.values.number import real_number, whole_number
from wakeful.values.wording import shown

MOST_JOBS: Final = 1_000_000_000
_RATE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:/|\bper\b)\s*([0-9.]*\s*[^\W\d_]+)\s*", re.IGNORECASE)

Faults = Callable[[BaseException], bool]
"""Whether an exception is the fault of the service behind a breaker."""

FaultsLike = type[BaseException] | Iterable[type[BaseException]] | Faults
P = TypeVar("P", bound="BreakerPolicy | QueuePolicy")


@dataclass(frozen=True, slots=True)
class Rate:
    """So many starts (`count`) in every `per`, at most `burst` of them at once; None: a tenth of a second's worth."""

    count: float
    per: timedelta
    burst: int | None = None


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """How a circuit breaker judges its service.

    `threshold` failures within `window` open it for `open_for`, twice as long each time a probe fails, `cap` at most;
    `probes` are let through at a time, and as many successes close it.
    """

    threshold: int | None = None
    window: timedelta | None = None
    open_for: timedelta | None = None
    cap: timedelta | None = None
    probes: int | None = None

    def over(self, other: BreakerPolicy) -> BreakerPolicy:
        """What this one says, and where it says nothing, the other."""
        return _over(self, other)

    def said(self) -> dict[str, object]:
        """As the database takes it."""
        return _without_none(
            {
                "threshold": self.threshold,
                "span": _span(self.window),
                "open_for": _span(self.open_for),
                "open_cap": _span(self.cap),
                "probes": self.probes,
            }
        )


class BreakerOptions(TypedDict, total=False):
    """What `app.breaker` takes beside the name."""

    threshold: int | None
    window: DurationLike | None
    open_for: DurationLike | None
    cap: DurationLike | None
    probes: int | None


@dataclass(frozen=True, slots=True)
class TaskPolicy:
    """What is said about a task. `key`: "tenant", or the path to a value in the payload, to limit each of them."""

    breaker: str | None = None
    concurrency: int | None = None
    rate: Rate | None = None
    key: str | None = None

    def said(self) -> dict[str, object]:
        """As the database takes it; empty for nothing."""
        return _without_none(
            {"breaker": self.breaker, "concurrency": self.concurrency, **_rate_said(self.rate), "key": self.key}
        )


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """What is said about a queue.

    `fair`: its tenants take turns, by `weights` (1 for who is not among them). `ageing`: after so long in line a job
    counts as one priority higher. `max_pending`: no more are let in.
    """

    concurrency: int | None = None
    rate: Rate | None = None
    fair: bool | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    ageing: timedelta | None = None
    max_pending: int | None = None

    def said(self) -> dict[str, object]:
        """As the database takes it."""
        return _without_none(
            {
                "concurrency": self.concurrency,
                **_rate_said(self.rate),
                "fair": self.fair,
                "weights": dict(self.weights) or None,
                "ageing": _span(self.ageing),
                "max_pending": self.max_pending,
            }
        )


@dataclass(frozen=True, slots=True)
class Policies:
    """All that a worker's code and settings say."""

    tasks: tuple[str, ...] = ()
    breakers: Mapping[str, BreakerPolicy] = field(default_factory=dict)
    of_tasks: Mapping[str, TaskPolicy] = field(default_factory=dict)
    of_queues: Mapping[str, QueuePolicy] = field(default_factory=dict)

    def as_json(self) -> dict[str, str]:
        """The three parts as JSON texts."""
        parts: dict[str, Mapping[str, Any]] = {
            "breakers": self.breakers,
            "task_policies": self.of_tasks,
            "queue_policies": self.of_queues,
        }
        return {
            part: json.dumps(
                {name: policy.said() for name, policy in said.items() if part != "task_policies" or policy.said()}
            )
            for part, said in parts.items()
        }


NO_POLICIES: Final = Policies()


def rate(value: object, name: str = "rate", burst: object = None) -> Rate | None:
    """What `rate=` and `burst=` mean: "100/m", "100 per minute", "5 per 30s", or a number of starts a second."""
    if value is None:
        if burst is not None:
            raise InvalidOption("burst", "is given without a rate: give that too, or leave it out.")
        return None
    count, per = _count_and_period(value, name)
    starts = real_number(count, name, 0)
    if starts <= 0 or per <= timedelta(0):
        raise InvalidOption(name, f'is {shown(value)}: give more than zero, as in "100 per minute".')
    return Rate(starts, per, None if burst is None else whole_number(burst, "burst", 1, MOST_JOBS))


def _count_and_period(value: object, name: str) -> tuple[float, timedelta]:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value, timedelta(seconds=1)
    if isinstance(value, str) and (found := _RATE.fullmatch(value)):
        period = found[2] if found[2][0].isdigit() else f"1 {found[2]}"
        return float(found[1]), duration(period, name)
    raise InvalidOption(name, f'is {shown(value)}: write it as "100/m" or "100 per minute".')


def breaker_policy(said: Mapping[str, Any], prefix: str = "") -> BreakerPolicy:
    """Checks what is said of a breaker. Milliseconds and other queues' words are taken too."""
    known = dict(said)
    if "failure_threshold" in known:
        known["threshold"] = known.pop("failure_threshold")
    if (milliseconds := known.pop("open_duration_ms", None)) is not None:
        known["open_for"] = f"{whole_number(milliseconds, f'{prefix}open_duration_ms', 1)}ms"
    _refuse_unknown(known, BreakerPolicy, prefix)
    policy = BreakerPolicy(
        threshold=_whole(known.get("threshold"), f"{prefix}threshold", 1000),
        window=_positive(known.get("window"), f"{prefix}window"),
        open_for=_positive(known.get("open_for"), f"{prefix}open_for"),
        cap=_positive(known.get("cap"), f"{prefix}cap"),
        probes=_whole(known.get("probes"), f"{prefix}probes", 1000),
    )
    if policy.cap is not None and policy.cap < (policy.open_for or timedelta(0)):
        raise InvalidOption(f"{prefix}cap", f"is {shown(known['cap'])}, below open_for: give at least that.")
    return policy


def task_policy(
    *,
    breaker: object = None,
    concurrency: object = None,
    rate_said: object = None,
    burst: object = None,
    limit_key: object = None,
) -> TaskPolicy:
    """Checks what a task's options say."""
    if limit_key is not None and concurrency is None and rate_said is None:
        raise InvalidOption("limit_key", "is given without concurrency or rate, and limits nothing: give one of them.")
    return TaskPolicy(
        breaker=None if breaker is None else breaker_name(breaker, "breaker"),
        concurrency=_whole(concurrency, "concurrency", MOST_JOBS),
        rate=rate(rate_said, "rate", burst),
        key=None if limit_key is None else _path(limit_key),
    )


def queue_policy(said: Mapping[str, Any], prefix: str = "") -> QueuePolicy:
    """Checks what is said of a queue."""
    known = {"burst": None, **said}
    _refuse_unknown(known, QueuePolicy, prefix, "burst")
    burst = known.pop("burst")
    weights = known.get("weights") or {}
    if not isinstance(weights, Mapping):
        raise InvalidOption(f"{prefix}weights", f"is {shown(weights)}: give a mapping of tenants to numbers.")
    fair = known.get("fair")
    if fair not in (None, True, False):
        raise InvalidOption(f"{prefix}fair", f"is {shown(fair)}: give True or False.")
    if weights and fair is False:
        raise InvalidOption(f"{prefix}weights", "is given for a queue that is not fair: give fair too.")
    return QueuePolicy(
        concurrency=_whole(known.get("concurrency"), f"{prefix}concurrency", MOST_JOBS),
        rate=rate(known.get("rate"), f"{prefix}rate", burst),
        fair=True if weights else fair,
        weights={
            label(tenant, f"{prefix}weights"): real_number(weight, f"{prefix}weights.{tenant}", 0.001, 1000)
            for tenant, weight in weights.items()
        },
        ageing=_positive(known.get("ageing"), f"{prefix}ageing"),
        max_pending=_whole(known.get("max_pending"), f"{prefix}max_pending", MOST_JOBS),
    )


def breaker_name(value: object, field: str = "name") -> str:
    """A breaker's name: printable, at most 100 bytes (`smtp`)."""
    if not isinstance(value, str):
        raise InvalidOption(field, f'is {shown(value)}: give its name, as in "smtp".')
    return label(value, field, 100)


def faults(value: FaultsLike | None, field: str) -> Faults | None:
    """What `counts=` and `breaker_on=` mean: an exception class, several, or a function; None: all of them."""
    if value is None:
        return None
    if isinstance(value, type) and issubclass(value, BaseException):
        return lambda error: isinstance(error, value)
    if callable(value) and not isinstance(value, type):
        return value
    kinds = exceptions(value, field)
    return lambda error: isinstance(error, kinds)


def exceptions(value: object, field: str) -> tuple[type[BaseException], ...]:
    """Exception classes, one or several."""
    listed = (value,) if isinstance(value, type) else value
    if isinstance(listed, Iterable) and not isinstance(listed, str):
        kinds = tuple(listed)
        if kinds and all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
            return kinds
    raise InvalidOption(field, f"is {shown(value)}: give an exception class, or several of them.")


def _path(value: object) -> str:
    if isinstance(value, str) and value and all(part.strip() == part and part for part in value.split(".")):
        # A field of the payload that is called tenant is not the job's tenant.
        return value if value == "payload.tenant" else value.removeprefix("payload.")
    if callable(value):
        raise InvalidOption(
            "limit_key",
            "is a function, which whoever claims a job without this code could not call: put what it computes into"
            ' the payload, and give the path to it, as in "account.id".',
        )
    raise InvalidOption("limit_key", f'is {shown(value)}: give "tenant", or a path in the payload, as in "account.id".')


def _whole(value: object, field: str, most: int) -> int | None:
    return None if value is None else whole_number(value, field, 1, most)


def _positive(value: DurationLike | None, field: str) -> timedelta | None:
    return None if value is None else positive_duration(value, field)


def _refuse_unknown(said: Mapping[str, Any], kind: type[P], prefix: str, *beside: str) -> None:
    known = [*(one.name for one in fields(kind)), *beside]
    for name in said:
        if name not in known:
            raise InvalidOption(f"{prefix}{name}", f"is not known: use {', '.join(known)}.")


def _over(policy: P, other: P) -> P:
    merged = {
        one.name: getattr(other if getattr(policy, one.name) is None else policy, one.name) for one in fields(policy)
    }
    return type(policy)(**merged)


def _rate_said(said: Rate | None) -> dict[str, object]:
    return {} if said is None else {"rate": said.count, "per": _span(said.per), "burst": said.burst}


def _span(value: timedelta | None) -> str | None:
    return None if value is None else f"{value.total_seconds():.6f} seconds"


def _without_none(said: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in said.items() if value is not None}
