"""The user's door: an app has tasks, a database, a queue and workers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, cast, overload

from wakeful.payload import encode
from wakeful.produce.options import NO_OPTIONS, EnqueueOptions
from wakeful.produce.template import Defaults, Template, template
from wakeful.task import ContextTask, Task, TaskDecorator, TaskOptions, declare
from wakeful.values.address import address
from wakeful.values.duration import DurationLike, duration
from wakeful.values.errors import InvalidOption
from wakeful.values.names import queue_name, task_name
from wakeful.values.policy import (
    BreakerOptions,
    BreakerPolicy,
    FaultsLike,
    Policies,
    QueuePolicy,
    breaker_name,
    breaker_policy,
    faults,
    queue_policy,
)

if TYPE_CHECKING:
    from wakeful.config import Settings
    from wakeful.database.session import Database
    from wakeful.guard.breaker import Breaker
    from wakeful.observe.observer import Observer
    from wakeful.produce.producer import Producer
    from wakeful.queue import Queue
    from wakeful.queue.dead import DeadLetters
    from wakeful.run.context import Context, SyncContext
    from wakeful.schedule import ScheduleDecorator, ScheduleOptions, Schedules
    from wakeful.values.alert import Alert, UsageEvent
    from wakeful.values.job import JobId
    from wakeful.values.sending import Sending
    from wakeful.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")


class Wakeful:
    """An app. Making one does nothing yet: settings are read, and the database is opened, on first use."""

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool_size: int | None = None,
        payload_limit: int | None = None,
        notify: bool | None = None,
        settings: Settings | None = None,
    ) -> None:
        """What is left out comes from WAKEFUL_* variables, the nearest wakeful.toml, or the defaults.

        Without any DSN the embedded server is used. `settings`, if given, are all of them.
        """
        self._flags = {
            "dsn": None if dsn is None else address(dsn, "dsn"),
            "pool_size": pool_size,
            "payload_limit": payload_limit,
            "notify": notify,
        }
        if settings is not None:
            if any(value is not None for value in self._flags.values()):
                raise InvalidOption("settings", "is given beside other arguments: put them into it.")
            self.settings = settings
        self._tasks: dict[str, Task[..., Any]] = {}
        self._runs: dict[str, object] = {}
        self.tasks: Mapping[str, Task[..., Any]] = MappingProxyType(self._tasks)
        self.observers: list[Observer] = []
        self._senders: list[Sending] = []
        self._breakers: dict[str, Breaker] = {}
        self._queue_policies: dict[str, QueuePolicy] = {}

    @cached_property
    def settings(self) -> Settings:
        """All settings, read once."""
        from wakeful.config import load

        return load(self._flags)

    @cached_property
    def database(self) -> Database:
        """The database that this app's statements run on."""
        from wakeful.database.session import Database

        return Database(self.settings.database.dsn, pool_size=self.settings.database.pool_size)

    @cached_property
    def producer(self) -> Producer:
        """What enqueues."""
        from wakeful.produce.producer import Producer

        return Producer(self.database, self.settings, self._senders)

    @cached_property
    def queue(self) -> Queue:
        """Claiming and settling by hand, for loops of one's own."""
        from wakeful.queue import Queue

        return Queue(self)

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules: those that code declares, and the verbs to make and steer others while workers run."""
        from wakeful.schedule import Schedules

        return Schedules(self)

    @cached_property
    def dead(self) -> DeadLetters:
        """The dead letters: to list, acknowledge, requeue or purge them, by id or by filter."""
        from wakeful.queue.dead import DeadLetters

        return DeadLetters(lambda: self.database)

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def task(self, function: Callable[Concatenate[SyncContext, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
        """Make a task of a function: `@app.task` or `@app.task(queue="mail", timeout="5m")`."""
        if function is not None:
            return self._register(function, options)
        return lambda decorated: self._register(decorated, options)

    def schedule(
        self,
        cron: str | None = None,
        /,
        *,
        every: DurationLike | None = None,
        tz: str = "UTC",
        name: str | None = None,
        payload: Mapping[str, Any] | None = None,
        misfire: Literal["latest", "skip", "all"] = "latest",
        cap: int = 100,
        version: int = 0,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleDecorator:
        """Make jobs of a task by the clock: `@app.schedule("*/5 * * * *", tz="Europe/Helsinki")` or `every="10m"`.

        Over a task, or over a function, of which it makes one. `misfire` says what becomes of slots that passed while
        no worker ran: the newest is run, none is, or all are, `cap` at most. Of two definitions of a name the higher
        `version` holds, of the same version the one that came later.
        """
        from wakeful.schedule import declared

        said = {"cron": cron, "every": every, "tz": tz, "payload": payload, "misfire": misfire, "cap": cap}

        def decorate(decorated: Any) -> Any:
            task = decorated if isinstance(decorated, Task) else self._register(decorated, {})
            self.schedules.declare(declared(task, name, version=version, options=options, **cast(Any, said)))
            return task

        return decorate

    def enqueue(
        self,
        task: str,
        payload: Mapping[str, Any] | None = None,
        *,
        conn: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> JobId | None:
        """Enqueue a job by its task's name, also of a task that is not imported here."""
        return self.producer.enqueue(*self._asked(task, payload, conn, options))

    async def aenqueue(
        self,
        task: str,
        payload: Mapping[str, Any] | None = None,
        *,
        conn: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> JobId | None:
        """As `enqueue`, awaited."""
        return await self.producer.aenqueue(*self._asked(task, payload, conn, options))

    def worker(self, **flags: Any) -> Worker:
        """A worker for this app's tasks. Flags are WorkerSettings, and come before all other settings."""
        from wakeful.worker.build import build_worker

        return build_worker(self, flags)

    def observe(self, observer: Observer) -> None:
        """Let what this app enqueues, and its workers that are made from here on, be told to the observer."""
        from wakeful.observe.observer import Observer

        self.observers.append(observer)
        if type(observer).sending is not Observer.sending:
            self._senders.append(observer.sending)

    def on_alert(self, function: Callable[[Alert], R], /) -> Callable[[Alert], R]:
        """Have a function called for every alert that fires or clears, in the worker that finds out; a decorator."""
        from wakeful.observe.listeners import AlertListener

        self.observe(AlertListener(function))
        return function

    def on_usage(self, function: Callable[[UsageEvent], R], /) -> Callable[[UsageEvent], R]:
        """Have a function called for every run of a job that has a tenant, in its worker; a decorator."""
        from wakeful.observe.listeners import UsageListener

        self.observe(UsageListener(function))
        return function

    def get_metrics_summary(self, task: str | None = None, since: DurationLike | None = None) -> dict[str, Any]:
        """What the whole fleet has done, of one task or of all, over the last `since` or all that is kept."""
        from wakeful.statements import metrics

        return self.database.run(metrics.summary(None if since is None else duration(since, "since"), task))

    async def aget_metrics_summary(self, task: str | None = None, since: DurationLike | None = None) -> dict[str, Any]:
        """As `get_metrics_summary`, awaited."""
        from wakeful.statements import metrics

        return await self.database.arun(metrics.summary(None if since is None else duration(since, "since"), task))

    def breaker(self, name: str, *, counts: FaultsLike | None = None, **policy: Unpack[BreakerOptions]) -> Breaker:
        """The circuit breaker of a service, for `with` and `async with` around calls of it.

        What is given here (`threshold`, `window`, `open_for`, `cap`, `probes`) holds for all processes from the next
        start of a worker on, and from the first call of a breaker that the database does not know yet. `counts`: the
        exceptions that are the service's fault, or a function that says so; all if left out.
        """
        from wakeful.guard.breaker import Breaker

        known = breaker_name(name)
        there = self._breakers.get(known)
        if there is not None and not policy and counts is None:
            return there
        if there is None and not policy and counts is None:
            self._require_breaker(known, "name")
        try:
            said = breaker_policy(policy)
        except InvalidOption as error:
            raise InvalidOption(error.option, message=f"Breaker {known}: {error.option} {error.problem}") from None
        made = Breaker(
            known, lambda: self.database, said, faults(counts, "counts"), lambda: self._settings_of_breaker(known)
        )
        self._breakers[known] = made
        return made

    def configure_queue(self, name: str, **policy: Any) -> None:
        """Say what holds for a queue, over all workers, from the next start of one on.

        `concurrency`, `rate` and `burst` limit what starts; `fair` and `weights` let its tenants take turns; `ageing`
        lets a job that waits so long count as one priority higher; more than `max_pending` waiting are refused with
        QueueFull.
        """
        queue = queue_name(name)
        try:
            self._queue_policies[queue] = queue_policy(policy)
        except InvalidOption as error:
            raise InvalidOption(error.option, message=f"Queue {queue}: {error.option} {error.problem}") from None

    def policies(self) -> Policies:
        """All that this app's code and settings say about breakers, tasks and queues."""
        steering = self.settings.steering
        named = {task.spec.policy.breaker for task in self._tasks.values()} - {None}
        names = sorted({*self._breakers, *steering.breakers, *(name for name in named if name)})
        own = {name: self._breakers[name].policy for name in self._breakers}
        breakers = {name: own.get(name, BreakerPolicy()).over(self._settings_of_breaker(name)) for name in names}
        of_tasks = {name: task.spec.policy for name, task in self._tasks.items() if task.spec.policy.said()}
        return Policies(tuple(self._tasks), breakers, of_tasks, {**steering.queues, **self._queue_policies})

    def close(self) -> None:
        """Close what is open. Idempotent; the next use opens it again."""
        if "queue" in self.__dict__:
            self.queue.close()
        if "database" in self.__dict__:
            self.database.close()

    async def aclose(self) -> None:
        """Wait for jobs of this event loop that are being enqueued, then close what is open. Idempotent."""
        if "producer" in self.__dict__:
            await self.producer.afinish()
        if "queue" in self.__dict__:
            await self.queue.aclose()
        if "database" in self.__dict__:
            await self.database.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _register(self, function: Callable[..., Any], options: TaskOptions) -> Task[..., Any]:
        made = declare(function, lambda: self.producer, options)
        there = self._tasks.get(made.name)
        if there is not None and _origin(there.function) != _origin(function):
            raise InvalidOption(
                "name", message=f"Task {made.name}: {_origin(there.function)} has this name: choose another."
            )
        run = _run_of(function)
        hidden = there is not None and there.function is not function
        if hidden and run is not None and self._runs[made.name] is run:
            raise InvalidOption("name", message=f"Task {made.name} is declared twice: rename one of the functions.")
        self._runs[made.name] = run
        if made.spec.policy.breaker is not None:
            try:
                self._require_breaker(made.spec.policy.breaker, "breaker")
            except InvalidOption as error:
                raise InvalidOption("breaker", message=f"Task {made.name}: {error.option} {error.problem}") from None
        self._tasks[made.name] = made
        return made

    def _settings_of_breaker(self, name: str) -> BreakerPolicy:
        steering = self.settings.steering
        return steering.breakers.get(name, BreakerPolicy()).over(steering.breaker)

    def _require_breaker(self, name: str, field: str) -> None:
        """Where breakers are declared at all, one that is not among them is a mistake."""
        declared = {name for name, one in self._breakers.items() if one.policy.said()} | set(
            self.settings.steering.breakers
        )
        used = {task.spec.policy.breaker for task in self._tasks.values()}
        if declared and name not in declared and name not in self._breakers and name not in used:
            known = ", ".join(sorted(declared))
            raise InvalidOption(field, f"is {name!r}, which is no breaker that is declared: known are {known}.")

    def _asked(
        self, task: str, payload: Mapping[str, Any] | None, conn: Any, options: EnqueueOptions
    ) -> tuple[Template, str]:
        given = {} if payload is None else payload
        limit_bytes = self.producer.payload_limit
        if (known := self._tasks.get(task)) is not None:
            configured = known.using(conn, **options)
            return configured.template, configured.text_of(given, limit_bytes)
        made = template(Defaults(task_name(task)), NO_OPTIONS.updated(conn, options))
        return made, encode(given, limit_bytes=limit_bytes)


def _run_of(function: Callable[..., Any]) -> object | None:
    """The run of a module that a function at its top belongs to; None for one that may well be made again."""
    if "<locals>" in getattr(function, "__qualname__", "<locals>"):
        return None
    # Each time a module is loaded it has a spec of its own; none has what is typed in, or run as a script.
    return getattr(sys.modules.get(function.__module__), "__spec__", None)


def _origin(function: Callable[..., Any]) -> str:
    """Where a function is from: a module that is loaded again may register its tasks again."""
    return f"{cast(Any, function).__module__}.{getattr(function, '__qualname__', repr(function))}"
