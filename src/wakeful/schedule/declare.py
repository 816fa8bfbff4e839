"""From what is said about a schedule to its declaration, checked where it is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypedDict, TypeVar, cast, get_args, overload
from uuid import UUID

from wakeful.payload import encode
from wakeful.produce.options import NO_OPTIONS, EnqueueOptions
from wakeful.produce.template import Defaults, template
from wakeful.run.context import Context, SyncContext
from wakeful.task import ContextTask, Task
from wakeful.tend.cron import cron_line, time_zone
from wakeful.values.duration import DurationLike, duration
from wakeful.values.errors import InvalidOption, PayloadError
from wakeful.values.job import NewJob
from wakeful.values.names import label, task_name
from wakeful.values.number import whole_number
from wakeful.values.schedule import Cron, Declaration, Every, Misfire, Timing
from wakeful.values.wording import shown

P = ParamSpec("P")
R = TypeVar("R")

LEAST_EVERY: Final = timedelta(seconds=1)
MOST_CAP: Final = 1000
# Of a job's options those that hold for every slot; times are the schedule's own.
_COLUMNS: Final = ("priority", "max_attempts", "dedup_key", "dedup", "tenant", "created_by", "default_off")


class ScheduleOptions(TypedDict, total=False):
    """What the jobs of a schedule are told; what is left out is the task's own."""

    queue: str | None
    priority: int | None
    """From −100 to 100, the higher first."""
    max_attempts: int | None
    dedup_key: str | None
    """With it, a slot makes no second job while the last one is live; `dedup` says what else could be done."""
    dedup: Literal["skip", "replace", "debounce", "rerun"] | None
    tenant: str | None
    created_by: str | None
    metadata: Mapping[str, object] | None
    tags: Iterable[str] | None


class ScheduleDecorator(Protocol):
    """What `@app.schedule(…)` gives: over a task, or over a function, of which it makes one."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule beside its task. The payload is written when it is sent: annotations may name what comes later."""

    name: str
    task: Task[..., Any] | str
    timing: Timing
    payload: Mapping[str, Any]
    job: NewJob
    misfire: Misfire
    cap: int
    version: int

    def declaration(self, limit_bytes: int) -> Declaration:
        """As it is stored; a PayloadError names what its task does not take."""
        text = payload_text(self.task, self.payload, limit_bytes)
        options = json.dumps(job_options(self.job))
        return Declaration(
            *(self.name, self.job.task, self.timing, text, self.job.queue),
            *(options, self.misfire, self.cap, self.version),
        )


def declared(
    task: Task[..., Any] | str,
    name: str | None,
    *,
    cron: object = None,
    every: DurationLike | None = None,
    tz: str = "UTC",
    payload: Mapping[str, Any] | None = None,
    misfire: str = "latest",
    cap: int = 100,
    version: int = 0,
    options: ScheduleOptions,
) -> Declared:
    """Checks all of it; an InvalidOption names what is wrong, and in a cron line the place."""
    job = job_of(task, options)
    given = {} if payload is None else payload
    if not isinstance(given, Mapping):
        raise PayloadError("", f"is a {type(given).__name__}: give a mapping of names to values.")
    if isinstance(task, Task) and task.spec.batch is None:
        task.codec.bind_mapping(given)
    return Declared(
        label(job.task if name is None else name, "name"),
        task,
        timing(cron, every, tz),
        given,
        job,
        misfire_policy(misfire),
        whole_number(cap, "cap", 1, MOST_CAP),
        whole_number(version, "version", 0, 2**31 - 1),
    )


def timing(cron: object, every: DurationLike | None, tz: object) -> Timing:
    """When: by a cron line, or at a distance."""
    if (cron is None) == (every is None):
        raise InvalidOption("cron", "and every: give one of them, a cron line or a duration.")
    if every is None:
        return Cron(cron_line(cron), time_zone(tz))
    return Every(interval(every))


def interval(every: DurationLike) -> timedelta:
    """A distance between slots."""
    span = duration(every, "every")
    if span < LEAST_EVERY:
        raise InvalidOption("every", f"is {shown(every)}: give at least a second.")
    return span


def misfire_policy(misfire: object) -> Misfire:
    """What becomes of missed slots."""
    if misfire not in get_args(Misfire):
        raise InvalidOption("misfire", f"is {shown(misfire)}: use one of {', '.join(get_args(Misfire))}.")
    return cast(Misfire, misfire)


def job_of(task: Task[..., Any] | str, options: ScheduleOptions) -> NewJob:
    """What all its jobs have in common."""
    for name in options:
        if name not in ScheduleOptions.__annotations__:
            near = get_close_matches(name, ScheduleOptions.__annotations__, n=1)
            known = ", ".join(ScheduleOptions.__annotations__)
            advice = f"did you mean {near[0]}?" if near else f"known are {known}."
            raise InvalidOption(name, f"is no option of a schedule: {advice}")
    if cast(object, options.get("dedup")) == "raise":
        raise InvalidOption("dedup", "is 'raise', and there is nobody to tell: use skip, replace, debounce or rerun.")
    given = cast(EnqueueOptions, options)
    if isinstance(task, Task):
        made = task.using(**given).template
    else:
        made = template(Defaults(task_name(task)), NO_OPTIONS.updated(None, given))
    return made.job(UUID(int=0), "{}")


def job_options(job: NewJob) -> dict[str, object]:
    """The options as they are stored: those that are given."""
    found = {name: value for name in _COLUMNS if (value := getattr(job, name)) is not None}
    return found if job.metadata is None else {**found, "metadata": json.loads(job.metadata)}


def payload_text(task: Task[..., Any] | str, payload: Mapping[str, Any], limit_bytes: int) -> str:
    """The payload as JSON, such as the task will take if it is known here."""
    if isinstance(task, Task):
        return task.text_of(payload, limit_bytes)
    return encode(payload, limit_bytes=limit_bytes)
