"""What both forms of the verbs stand on: the app, this process's presence, and a script for each verb."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol, Unpack
from uuid import UUID

from wakeful.config import Settings
from wakeful.database.session import Database
from wakeful.produce.options import EnqueueOptions
from wakeful.queue import settling
from wakeful.queue.claimed import ClaimedJob
from wakeful.queue.presence import Presence
from wakeful.queue.script import Script
from wakeful.task import Task
from wakeful.values.errors import InvalidOption
from wakeful.values.failing import NOTHING_SAID
from wakeful.values.job import JobId
from wakeful.values.outcome import Outcome
from wakeful.values.retry import RetryPolicy

DEFAULT_LEASE: Final = "5m"

JobRef = ClaimedJob | UUID | str
"""A claimed job, or the id of one that this queue has claimed in this process."""

Failure = BaseException | str | tuple[str, str]
"""An exception, a message, or a code and a message."""

# A forked child must not touch its parent's sockets and threads, and what is collected might.
_abandoned: list[Presence] = []


class App(Protocol):
    """What a queue needs of an app."""

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def database(self) -> Database: ...

    def enqueue(
        self,
        task: str,
        payload: Mapping[str, Any] | None = None,
        *,
        conn: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> JobId | None: ...

    async def aenqueue(
        self,
        task: str,
        payload: Mapping[str, Any] | None = None,
        *,
        conn: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> JobId | None: ...


class Door:
    """Makes the presence when it is first needed, and anew in a forked child."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._presence: Presence | None = None

    @property
    def worker_id(self) -> UUID:
        """Under which this process holds jobs; another one in a forked child."""
        return self._here().worker_id

    def close(self) -> None:
        """End the threads; callers who wait return with nothing. Idempotent; the next use starts afresh."""
        if self._pid == os.getpid():
            presence, self._presence = self._presence, None
            if presence is not None:
                presence.close()

    def _here(self) -> Presence:
        if self._pid != os.getpid():
            if self._presence is not None:
                _abandoned.append(self._presence)
            self._presence, self._lock, self._pid = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._presence is None:
                self._presence = Presence(self._app.database, self._app.settings.database)
            return self._presence

    def _end(self, job: JobRef, outcome: Outcome) -> Script[None]:
        here = self._here()
        claimed = here.claimed(job)
        return settling.end(here, claimed, outcome, self._policy(claimed.task))

    def _fail(self, job: JobRef, failure: settling.Failure) -> Script[None]:
        claimed = self._here().claimed(job)
        known = self._app.tasks.get(claimed.task)
        failing = NOTHING_SAID if known is None else known.spec.failing
        return self._end(claimed, failure.outcome(claimed.claim.payload, failing))

    def _policy(self, task: str) -> RetryPolicy:
        known = self._app.tasks.get(task)
        return known.spec.retry if known is not None and known.spec.own_retry else self._app.settings.steering.retry


def either(task: str | None, job_type: str | None) -> str:
    """The task's name, by whichever word it was given."""
    named = job_type if task is None else task
    if named is None or (task is not None and job_type is not None):
        raise InvalidOption("task", "is missing, or given twice: name the task, once.")
    return named
