"""Enqueuing that waits for the job's end: what is enqueued is real, and so is the worker that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from wakeful.config import Settings
from wakeful.database.session import Database
from wakeful.produce.delivery import Done
from wakeful.produce.producer import Producer
from wakeful.produce.template import Template
from wakeful.values.current import current_job
from wakeful.values.job import JobId


class InlineProducer(Producer):
    """As its base, and then drains; inside a handler it does not, for whoever drains goes on to what that enqueued."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        drain: Callable[[], object],
        adrain: Callable[[], Awaitable[object]],
    ) -> None:
        super().__init__(database, settings)
        self._drain = drain
        self._adrain = adrain

    def enqueue(self, template: Template, payload: str) -> JobId | None:
        """Enqueue one job, and run it."""
        done = super().enqueue(template, payload)
        self._run(template)
        return done

    async def aenqueue(self, template: Template, payload: str) -> JobId | None:
        """Enqueue one job, and run it."""
        done = await super().aenqueue(template, payload)
        await self._arun(template)
        return done

    def enqueue_many(self, template: Template, payloads: Sequence[str]) -> Done:
        """Enqueue all, and run them."""
        done = super().enqueue_many(template, payloads)
        self._run(template)
        return done

    async def aenqueue_many(self, template: Template, payloads: Sequence[str]) -> Done:
        """Enqueue all, and run them."""
        done = await super().aenqueue_many(template, payloads)
        await self._arun(template)
        return done

    def _run(self, template: Template) -> None:
        if template.options.conn is None and current_job.get() is None:
            self._drain()

    async def _arun(self, template: Template) -> None:
        if template.options.conn is None and current_job.get() is None:
            await self._adrain()
