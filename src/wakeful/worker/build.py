"""From an app's tasks and settings to a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from wakeful.config import Settings, WorkerSettings, load
from wakeful.database.session import Database
from wakeful.observe.listeners import AlertWebhook, UsageWebhook
from wakeful.observe.observer import Observer
from wakeful.run.handler import Handler
from wakeful.task import Task
from wakeful.values.errors import InvalidOption
from wakeful.values.policy import Policies
from wakeful.values.retry import DEFAULT_RETRY, RetryPolicy
from wakeful.worker.desk import Enqueues
from wakeful.worker.worker import Worker

if TYPE_CHECKING:
    from wakeful.schedule import Schedules


class App(Enqueues, Protocol):
    """What a worker is made of."""

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def database(self) -> Database: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def observers(self) -> Sequence[Observer]: ...

    def policies(self) -> Policies: ...


def build_worker(app: App, flags: Mapping[str, object]) -> Worker:
    """A worker for all tasks of the app; `flags` come before the app's settings."""
    if not app.tasks:
        raise InvalidOption("app", "has no task: import the modules that declare them before making a worker.")
    settings = worker_settings(app.settings.worker, flags)
    schedules = app.schedules.declarations()
    return Worker(
        app,
        app.database,
        {name: handler_of(task, settings.timeout, app.settings.steering.retry) for name, task in app.tasks.items()},
        frozenset(task.spec.queue for task in app.tasks.values()) | {one.queue for one in schedules if one.queue},
        app.settings.database,
        settings,
        schedules,
        (*app.observers, *webhooks(app.settings)),
        app.settings.alert,
        app.policies(),
    )


def webhooks(settings: Settings) -> list[Observer]:
    """Those that the settings name."""
    usage, alerts = settings.observe.usage_webhook, settings.alert.alert_webhook
    return [*([UsageWebhook(usage)] if usage else ()), *([AlertWebhook(alerts)] if alerts else ())]


def handler_of(task: Task[..., Any], timeout: timedelta, retry: RetryPolicy = DEFAULT_RETRY) -> Handler:
    """How a worker runs a task; `timeout` and `retry` are for those that name none."""
    task.codec.resolve()
    spec = task.spec
    return Handler(
        spec.name,
        task.function,
        task.codec,
        spec.place,
        spec.retry if spec.own_retry else retry,
        spec.timeout or timeout,
        spec.lease,
        spec.batch,
        spec.linger,
        spec.log_fields,
        spec.failing,
    )


def worker_settings(settings: WorkerSettings, flags: Mapping[str, object]) -> WorkerSettings:
    """The settings, with the flags that are given in their place."""
    given = {name: value for name, value in flags.items() if value is not None}
    known = {field.name for field in fields(WorkerSettings)}
    if unknown := given.keys() - known:
        raise InvalidOption(min(unknown), f"is no setting of a worker: known are {', '.join(sorted(known))}.")
    read = load(given, environ={}, directory=None).worker if given else settings
    return replace(settings, **{name: getattr(read, name) for name in given})
