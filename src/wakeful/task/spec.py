"""What is said about a task, checked where it is said."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypedDict

from wakeful.payload import PayloadCodec
from wakeful.values.duration import DurationLike, duration, nonnegative_duration
from wakeful.values.errors import InvalidOption
from wakeful.values.failing import Failing, RetryOn, failing
from wakeful.values.names import queue_name
from wakeful.values.number import whole_number
from wakeful.values.policy import FaultsLike, TaskPolicy, task_policy
from wakeful.values.retry import DEFAULT_RETRY, RetryLike, RetryPolicy, retry_policy, starts_allowed
from wakeful.values.wording import shown

Place = Literal["loop", "thread", "process"]

_LONGEST_LINGER: Final = timedelta(minutes=1)
_LARGEST_BATCH: Final = 10_000
# What log lines carry anyway, and what logging keeps for itself.
_TAKEN: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    *("message", "asctime", "event", "level", "logger", "time", "pid", "traceback", "job_id", "task", "queue"),
    *("attempt", "worker_id", "correlation_id", "tenant", "duration_ms", "queue_time_ms", "error", "error_code"),
    *("will_retry", "retry_in_ms", "counters"),
}


class TaskOptions(TypedDict, total=False):
    """What `@app.task(…)` takes."""

    name: str | None
    """Under which jobs are stored; the module and name of the function if left out."""
    queue: str
    priority: int
    """From −100 to 100, the higher first."""
    max_attempts: int | None
    """How often a job may start; 5, or what the retry policy implies."""
    max_retries: int | None
    retry: RetryLike
    timeout: DurationLike | None
    """How long one attempt may take; the worker's own limit if left out."""
    lease: DurationLike | None
    """A lease of each job's own, instead of the worker's."""
    enabled: bool
    """False: nothing is enqueued until someone switches the task on in the database."""
    executor: Literal["thread", "process"] | None
    """Where a `def` function runs."""
    batch: int | None
    """The function takes a list of up to so many jobs' arguments."""
    linger: DurationLike | None
    """How long a batch that is not full waits for more."""
    log_fields: Sequence[str]
    """Arguments that log lines about a job carry, those of its handler too."""
    retry_on: RetryOn | None
    """Exceptions that are retried, and no others; or a mapping of exceptions to policies of their own."""
    dead_on: type[BaseException] | tuple[type[BaseException], ...] | None
    """Exceptions after which a job is dead at once."""
    redact: Sequence[str] | None
    """Fields of the payload whose values are kept out of stored errors."""
    breaker: str | None
    """The circuit breaker of the service that the task calls: while it is open, its jobs wait."""
    breaker_on: FaultsLike | None
    """Exceptions that are the service's fault, or a function that says so; all of them if left out."""
    concurrency: int | None
    """How many of its jobs run at once, over all workers."""
    rate: str | float | None
    """How many of its jobs start in a time, over all workers: "100 per minute"."""
    burst: int | None
    """How many of those at once."""
    limit_key: str | None
    """Limits each tenant ("tenant"), or each value at a path of the payload ("account.id"), instead of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What is said about a task. `timeout` None: the worker's own; `lease` None: covered by the worker's.

    `own_retry` and `own_attempts`: the task says so itself, and settings do not.
    """

    name: str
    queue: str
    priority: int
    max_attempts: int
    retry: RetryPolicy
    timeout: timedelta | None
    lease: timedelta | None
    enabled: bool
    place: Place
    batch: int | None
    linger: timedelta
    log_fields: tuple[str, ...]
    failing: Failing
    policy: TaskPolicy
    own_retry: bool
    own_attempts: bool


def task_spec(name: str, function: Callable[..., object], codec: PayloadCodec, options: TaskOptions) -> TaskSpec:
    """Checks all options; an InvalidOption names the task and the one that is wrong."""
    unknown = options.keys() - TaskOptions.__annotations__.keys()
    try:
        if unknown:
            known = ", ".join(TaskOptions.__annotations__)
            raise InvalidOption(min(unknown), f"is no option of a task: known are {known}.")
        return _spec(name, function, codec, options)
    except InvalidOption as error:
        raise InvalidOption(
            error.option, error.problem, message=f"Task {name}: {error.option} {error.problem}"
        ) from None


def _spec(name: str, function: Callable[..., object], codec: PayloadCodec, options: TaskOptions) -> TaskSpec:
    retry = retry_policy(options.get("retry", DEFAULT_RETRY))
    batch = options.get("batch")
    return TaskSpec(
        name=name,
        queue=queue_name(options.get("queue", "default"), "queue"),
        priority=whole_number(options.get("priority", 0), "priority", -100, 100),
        max_attempts=starts_allowed(
            retry, max_attempts=options.get("max_attempts"), max_retries=options.get("max_retries")
        ),
        retry=retry,
        timeout=_positive(options.get("timeout"), "timeout"),
        lease=_positive(options.get("lease"), "lease"),
        enabled=_flag(options.get("enabled", True), "enabled"),
        place=_place(function, codec, options.get("executor")),
        batch=None if batch is None else whole_number(batch, "batch", 2, _LARGEST_BATCH),
        linger=_linger(options.get("linger"), batch),
        log_fields=_log_fields(options.get("log_fields", ()), codec, batch),
        failing=failing(
            options.get("retry_on"), options.get("dead_on"), options.get("breaker_on"), options.get("redact")
        ),
        policy=_policy(options),
        own_retry="retry" in options,
        own_attempts=retry.starts is not None
        or any(options.get(name) is not None for name in ("max_attempts", "max_retries")),
    )


def _policy(options: TaskOptions) -> TaskPolicy:
    if options.get("breaker_on") is not None and options.get("breaker") is None:
        raise InvalidOption("breaker_on", "is given without a breaker: give that too.")
    return task_policy(
        breaker=options.get("breaker"),
        concurrency=options.get("concurrency"),
        rate_said=options.get("rate"),
        burst=options.get("burst"),
        limit_key=options.get("limit_key"),
    )


def _positive(value: DurationLike | None, field: str) -> timedelta | None:
    if value is None:
        return None
    span = duration(value, field)
    if span > timedelta(0):
        return span
    raise InvalidOption(field, f"is {shown(value)}: give a duration of more than zero.")


def _flag(value: object, field: str) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidOption(field, f"is {shown(value)}: give True or False.")


def _place(function: Callable[..., object], codec: PayloadCodec, executor: object) -> Place:
    if executor not in (None, "thread", "process"):
        raise InvalidOption("executor", f'is {shown(executor)}: use "thread" or "process".')
    if is_async(function):
        if executor is not None:
            raise InvalidOption("executor", "is given for an async function, which runs on the loop: omit it.")
        return "loop"
    if executor != "process":
        return "thread"
    if codec.context is not None:
        problem = f"is process, where there is no context for {codec.context}: use a thread, or leave that out."
        raise InvalidOption("executor", problem)
    if "<locals>" in getattr(function, "__qualname__", "<locals>"):
        raise InvalidOption("executor", "is process, which finds functions by module: define it at the top.")
    return "process"


def _linger(value: DurationLike | None, batch: int | None) -> timedelta:
    if value is None:
        return timedelta(0)
    if batch is None:
        raise InvalidOption("linger", "is given without batch, and there is nothing to wait for: omit it.")
    span = nonnegative_duration(value, "linger")
    if span > _LONGEST_LINGER:
        raise InvalidOption("linger", f"is {shown(value)}: a minute is the most.")
    return span


def _log_fields(value: Sequence[str], codec: PayloadCodec, batch: int | None) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise InvalidOption("log_fields", f'is {shown(value)}: give the names of arguments, such as ("item_id",).')
    signature = codec.signature
    for name in value:
        if name in _TAKEN:
            raise InvalidOption("log_fields", f"names {name}, which means something else on a log line: leave it out.")
        if batch is None and name not in signature.annotations and not signature.takes_extra:
            raise InvalidOption("log_fields", f"names {name}, which the function does not take: correct it.")
    return tuple(value)


def is_async(function: Callable[..., object]) -> bool:
    """Whether a call of it gives a coroutine; callable objects and partials too."""
    return _is(inspect.iscoroutinefunction, function)


def is_generator(function: Callable[..., object]) -> bool:
    """Whether a call of it gives a generator, of which nothing has run yet."""
    return _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function)


def _is(kind: Callable[[object], bool], function: Callable[..., object]) -> bool:
    target: Any = inspect.unwrap(function)
    while isinstance(target, functools.partial):
        target = target.func
    return kind(target) or kind(type(target).__call__)
