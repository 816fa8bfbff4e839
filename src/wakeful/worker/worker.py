"""The worker as users meet it: run for ever, or once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wakeful.claim.lanes import make_lanes
from wakeful.config import NO_ALERTS, AlertSettings, DatabaseSettings, WorkerSettings
from wakeful.database.session import Database
from wakeful.observe.job_fields import on_every_line
from wakeful.observe.listeners import AlertLog
from wakeful.observe.observer import Observer, Watch
from wakeful.observe.run_log import RunLog
from wakeful.run.handler import Handler
from wakeful.statements.policy import declare
from wakeful.values.errors import InvalidOption
from wakeful.values.policy import NO_POLICIES, Policies
from wakeful.values.schedule import Declaration
from wakeful.values.standing import Standing
from wakeful.worker.desk import Desk, Enqueues
from wakeful.worker.ending import run_to_end
from wakeful.worker.shift import Shift
from wakeful.worker.summary import Summary

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """Runs the jobs of registered tasks in this process."""

    def __init__(
        self,
        app: Enqueues,
        database: Database,
        handlers: Mapping[str, Handler],
        declared_queues: frozenset[str],
        where: DatabaseSettings,
        settings: WorkerSettings,
        schedules: Sequence[Declaration] = (),
        observers: Sequence[Observer] = (),
        alerts: AlertSettings = NO_ALERTS,
        policies: Policies = NO_POLICIES,
    ) -> None:
        self._app = app
        self._policies = policies
        self._database = database
        self._handlers = handlers
        self._declared = declared_queues
        self._where = where
        self._settings = settings
        self._schedules = schedules
        self._observers = observers
        self._alerts = alerts
        self._shift: Shift | None = None
        self._stops = 0
        self.summary = Summary()

    def run(self) -> Summary:
        """Work until SIGTERM or SIGINT: stop claiming, finish what runs, give back the rest. Blocks."""
        return run_to_end(self._with_signals(None))

    async def arun(self, *, started: Callable[[], None] | None = None) -> Summary:
        """Work until `stop` is called or the task is cancelled. `started` is called once it is registered."""
        return await self._work(None, started)

    def run_once(self, limit: int = 100) -> Summary:
        """Run at most `limit` jobs that are due now, and return. Blocks."""
        return run_to_end(self._with_signals(limit))

    async def arun_once(self, limit: int = 100) -> Summary:
        """Run at most `limit` jobs that are due now, and return."""
        return await self._work(limit)

    def stop(self) -> None:
        """Stop as on SIGTERM; a second call stops at once. Call it in the worker's own event loop."""
        self._stops += 1
        if self._shift is not None:
            self._shift.stop()

    @property
    def standing(self) -> Standing | None:
        """How it stands; None while it does not run. May be asked from any thread."""
        shift = self._shift
        return None if shift is None else shift.standing

    def get_metrics_summary(self) -> dict[str, Any]:
        """What this worker's last or present run has done so far: jobs, success rate, counters, average duration."""
        return self.summary.metrics()

    async def _with_signals(self, limit: int | None) -> Summary:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            return await self._work(limit)
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    async def _work(self, limit: int | None, started: Callable[[], None] | None = None) -> Summary:
        if limit is not None and limit < 1:
            raise InvalidOption("limit", f"is {limit}: give at least 1.")
        self._stops = 0
        dsn = await asyncio.to_thread(lambda: self._database.dsn)
        # Its first connection checks that the schema fits: a worker must not find out halfway.
        async with self._database.aconnection():
            pass
        # Once in a process's life: one that registers anew may be of an older version than who has said more since.
        await self._database.arun(declare(self._policies))
        settings = self._settings
        if limit is not None and not settings.queues:
            settings = replace(settings, concurrency=min(settings.concurrency, limit))
        fields = {task: handler.fields_of for task, handler in self._handlers.items() if handler.log_fields}
        self._shift = Shift(
            dsn,
            (self._where.listen_dsn or dsn) if self._where.notify else None,
            self._handlers,
            make_lanes(settings.queues, settings.concurrency, self._declared),
            settings,
            Desk(self._database, self._app),
            budget=limit,
            keep=settings.retention,
            started=started,
            schedules=self._schedules,
            watch=Watch([RunLog(fields), AlertLog(), *self._observers]),
            alerts=self._alerts,
        )
        self.summary = self._shift.summary
        # Asked to stop while the database was looked for.
        for _ in range(self._stops):
            self._shift.stop()
        try:
            with on_every_line():
                return await self._shift.run()
        finally:
            self._shift = None
