"""An app on a test's own database: its jobs are run in place, its time is moved, what it enqueues is looked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from wakeful.app import Wakeful
from wakeful.config import Settings
from wakeful.database.connect import connect
from wakeful.edges.testing import clock, wanted
from wakeful.edges.testing.databases import Database
from wakeful.edges.testing.inline import InlineProducer
from wakeful.statements import read
from wakeful.task import Task
from wakeful.values.errors import InvalidOption, UnknownTask
from wakeful.values.job import JobReport
from wakeful.worker.ending import run_to_end
from wakeful.worker.summary import Summary

T = TypeVar("T")

_JOBS_AT_ONCE = 1000
# What an app makes of its settings when it is first used.
_MADE = ("settings", "database", "producer", "queue")


class Sandbox:
    """Made by the fixture `sandbox`, or `with sandboxed(app, database)`."""

    def __init__(self, app: Wakeful, database: Database) -> None:
        self.app = app
        self.database = database

    def drain(self, limit: int = _JOBS_AT_ONCE) -> Summary:
        """Run the jobs that are due, and those that they enqueue, until none is left; `limit` at most.

        They run as in a worker: with retries, timeouts and all. In async code use `adrain`.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run_to_end(self._drained(limit))
        return _in_a_thread(lambda: run_to_end(self._drained(limit)))

    async def adrain(self, limit: int = _JOBS_AT_ONCE) -> Summary:
        """As `drain`, awaited: async handlers run on this event loop."""
        return await self._drained(limit)

    def travel(self, by: timedelta | None = None, *, to: datetime | None = None, **span: float) -> datetime:
        """Move the queue's clock: `travel(hours=2)`, `travel(timedelta(days=1))`, `travel(to=…)`; its time then.

        Only in this test's database, and for every session that is open there. Time passes for leases too.
        """
        if (by is not None) + (to is not None) + bool(span) != 1:
            raise InvalidOption("travel", "needs to know how far: say travel(hours=2), a timedelta, or to=….")
        with connect(self.database.dsn, name="wakeful test") as conn:
            if to is not None:
                clock.travel_to(conn, to)
            else:
                clock.travel(conn, timedelta(**span) if by is None else by)
            # Workers that sleep have set their timers by the time that was.
            conn.execute("""select pg_notify('wakeful', '{"look": true}')""")
            found = conn.execute("select wakeful.now()").fetchone()
        assert found is not None
        moment: datetime = found[0]
        return moment

    def jobs(self, task: Task[..., Any] | str | None = None) -> list[JobReport]:
        """The jobs of a task, or of all, in whatever state they are; the oldest first."""
        name = None if task is None else _name(task)
        found: list[JobReport] = []
        while True:
            after = found[-1].id if found else None
            page = self.app.database.run(read.jobs(read.JobFilter(task=name), limit=_JOBS_AT_ONCE, after=after))
            found += page
            if len(page) < _JOBS_AT_ONCE:
                return found[::-1]

    def enqueued(self, task: Task[..., Any] | str, /, **arguments: Any) -> JobReport:
        """Assert that a job of the task was enqueued with these arguments, whatever became of it; the newest such."""
        there, asked = self.jobs(), wanted.as_stored(arguments)
        fitting = [job for job in there if job.task == _name(task) and wanted.fits(job, asked)]
        if not fitting:
            self._refuse_unknown(task)
            raise AssertionError(wanted.not_found(_name(task), asked, there))
        return fitting[-1]

    def not_enqueued(self, task: Task[..., Any] | str, /, **arguments: Any) -> None:
        """Assert that no job of the task was enqueued with these arguments."""
        self._refuse_unknown(task)
        asked = wanted.as_stored(arguments)
        fitting = [job for job in self.jobs(task) if wanted.fits(job, asked)]
        if fitting:
            raise AssertionError(wanted.found(_name(task), asked, fitting))

    @contextmanager
    def inline(self) -> Iterator[None]:
        """In the block, whoever enqueues a job returns when it, and what it enqueued, has run.

        A job that joins the transaction of a `conn=` is not there before that commits: it is run by the next `drain`.
        """
        before = self.app.producer
        self.app.__dict__["producer"] = InlineProducer(self.app.database, self.app.settings, self.drain, self.adrain)
        try:
            yield
        finally:
            self.app.__dict__["producer"] = before

    async def _drained(self, limit: int) -> Summary:
        """A worker that finds nothing more to claim leaves; what its jobs enqueued meanwhile is for the next."""
        total = Summary()
        while total.processed < limit:
            done = await self.app.worker(queues=()).arun_once(limit - total.processed)
            if not done.processed:
                break
            total.include(done)
        return total

    def _refuse_unknown(self, task: Task[..., Any] | str) -> None:
        """A name that is mistyped would pass as never enqueued."""
        if isinstance(task, str) and task not in self.app.tasks and not self.jobs(task):
            raise UnknownTask(task, self.app.tasks)


@contextmanager
def sandboxed(app: Wakeful, database: Database) -> Iterator[Sandbox]:
    """The app uses this database until the block ends; then it is what it was."""
    before = {name: app.__dict__.pop(name) for name in _MADE if name in app.__dict__}
    settings: Settings = before.get("settings") or app.settings
    where = replace(settings.database, dsn=database.dsn, listen_dsn=None)
    app.__dict__["settings"] = replace(settings, database=where)
    with connect(database.dsn, name="wakeful test") as conn:
        # Before anyone is there: a transaction that is under way would not see a function change.
        clock.pack(conn)
    try:
        yield Sandbox(app, database)
    finally:
        app.close()
        for name in _MADE:
            app.__dict__.pop(name, None)
        app.__dict__.update(before)


def _name(task: Task[..., Any] | str) -> str:
    return task if isinstance(task, str) else task.name


def _in_a_thread(act: Callable[[], T]) -> T:
    """The answer of an act that cannot be done where an event loop runs; its error, if it has one, is ours."""
    with ThreadPoolExecutor(1, "wakeful-drain") as thread:
        return thread.submit(act).result()
