"""A PostgreSQL job queue for Python whose workers sleep until there is work.

Names are imported when they are first used, so that `import wakeful` costs next to nothing. Type checkers
read `__init__.pyi`, which lists them again.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "app": ("Wakeful",),
    "config": ("Settings",),
    "guard": ("Breaker", "with_retry", "with_timeout"),
    "observe.observer": ("Observer",),
    "queue": ("ClaimedJob", "Queue"),
    "run.context": ("Context", "SyncContext"),
    "task": ("Task",),
    "values.alert": ("Alert", "UsageEvent"),
    "values.dedup": ("dedup_key",),
    "values.errors": (
        *("BreakerOpen", "ConfigError", "DatabaseUnavailable", "DuplicateJob", "EmbeddedServerError", "InvalidOption"),
        *("JobNotFound", "LeaseLapsed", "MigrationError", "PayloadError", "QueueFull", "Refused"),
        *("SchemaMismatch", "StaleClaim", "UnknownTask", "WakefulError"),
    ),
    "schedule": ("Schedules",),
    "values.failing": ("retry_after",),
    "values.job": ("Job", "JobId", "JobReport"),
    "values.outcome": ("Cancel", "Dead", "Retry", "Snooze"),
    "values.retry": ("Exponential", "Fixed", "Never", "RetryPolicy", "Steps"),
    "values.schedule": ("ScheduleReport",),
    "values.retryable": ("backoff", "can_retry"),
    "worker": ("Worker",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("wakeful")
    if name not in _HOME:
        raise AttributeError(f"module 'wakeful' has no attribute {name!r}")
    found = getattr(import_module(f"wakeful.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
