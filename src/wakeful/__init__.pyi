from wakeful.app import Wakeful
from wakeful.config import Settings
from wakeful.guard import Breaker, with_retry, with_timeout
from wakeful.observe.observer import Observer
from wakeful.queue import ClaimedJob, Queue
from wakeful.run.context import Context, SyncContext
from wakeful.schedule import Schedules
from wakeful.task import Task
from wakeful.values.alert import Alert, UsageEvent
from wakeful.values.dedup import dedup_key
from wakeful.values.errors import (
    BreakerOpen,
    ConfigError,
    DatabaseUnavailable,
    DuplicateJob,
    EmbeddedServerError,
    InvalidOption,
    JobNotFound,
    LeaseLapsed,
    MigrationError,
    PayloadError,
    QueueFull,
    Refused,
    SchemaMismatch,
    StaleClaim,
    UnknownTask,
    WakefulError,
)
from wakeful.values.failing import retry_after
from wakeful.values.job import Job, JobId, JobReport
from wakeful.values.outcome import Cancel, Dead, Retry, Snooze
from wakeful.values.retry import (
    Exponential,
    Fixed,
    Never,
    RetryPolicy,
    Steps,
)
from wakeful.values.retryable import backoff, can_retry
from wakeful.values.schedule import ScheduleReport
from wakeful.worker import Worker

__version__: str

__all__ = [
    "Alert",
    "Breaker",
    "BreakerOpen",
    "Cancel",
    "ClaimedJob",
    "ConfigError",
    "Context",
    "DatabaseUnavailable",
    "Dead",
    "DuplicateJob",
    "EmbeddedServerError",
    "Exponential",
    "Fixed",
    "InvalidOption",
    "Job",
    "JobId",
    "JobNotFound",
    "JobReport",
    "LeaseLapsed",
    "MigrationError",
    "Never",
    "Observer",
    "PayloadError",
    "Queue",
    "QueueFull",
    "Refused",
    "Retry",
    "RetryPolicy",
    "ScheduleReport",
    "Schedules",
    "SchemaMismatch",
    "Settings",
    "Snooze",
    "StaleClaim",
    "Steps",
    "SyncContext",
    "Task",
    "UnknownTask",
    "UsageEvent",
    "Wakeful",
    "WakefulError",
    "Worker",
    "__version__",
    "backoff",
    "can_retry",
    "dedup_key",
    "retry_after",
    "with_retry",
    "with_timeout",
]
