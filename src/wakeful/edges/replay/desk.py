"""What a replayed handler is given in place of the queue: it answers like the real one, and keeps nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from wakeful.config import Settings
from wakeful.database.session import Database
from wakeful.produce.template import Template
from wakeful.statements.statement import Statement
from wakeful.values.identity import new_id
from wakeful.values.job import JobId

T = TypeVar("T")


class DryDesk:
    """Serves contexts: transactions are rolled back, notes and settlements go nowhere."""

    def __init__(self, database: Database, enqueued: list[str]) -> None:
        self._database = database
        self._enqueued = enqueued

    def run(self, statement: Statement[T]) -> T:
        """As if the fence had let it pass."""
        return statement.decode([(True,)] if "wakeful.note_1" in statement.sql else [])

    async def arun(self, statement: Statement[T]) -> T:
        """As if the fence had let it pass."""
        return self.run(statement)

    def run_on(self, conn: object, statement: Statement[T]) -> T:
        """As if the fence had let it pass."""
        return self.run(statement)

    async def arun_on(self, conn: object, statement: Statement[T]) -> T:
        """As if the fence had let it pass."""
        return self.run(statement)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A connection in a transaction that is rolled back."""
        with self._database.connection() as conn, conn.transaction(force_rollback=True):
            yield conn

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[Any]:
        """A connection in a transaction that is rolled back."""
        async with self._database.aconnection() as conn, conn.transaction(force_rollback=True):
            yield conn

    def enqueue(self, task: str, payload: Mapping[str, object] | None, options: Mapping[str, Any]) -> JobId | None:
        """Only noted."""
        self._enqueued.append(task)
        return JobId(new_id(), "replayed")

    async def aenqueue(
        self, task: str, payload: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> JobId | None:
        """Only noted."""
        return self.enqueue(task, payload, options)


class DryProducer:
    """Takes the place of the app's producer: what the handler enqueues is noted, and not sent."""

    def __init__(self, settings: Settings, enqueued: list[str]) -> None:
        self.payload_limit = settings.produce.payload_limit
        self.max_attempts = settings.steering.max_attempts
        self._enqueued = enqueued

    def enqueue(self, template: Template, payload: str) -> JobId | None:
        """Only noted."""
        self._enqueued.append(template.task)
        return JobId(new_id(), "replayed")

    async def aenqueue(self, template: Template, payload: str) -> JobId | None:
        """Only noted."""
        return self.enqueue(template, payload)

    def enqueue_many(self, template: Template, payloads: Sequence[str]) -> list[JobId | None]:
        """Only noted."""
        return [self.enqueue(template, payload) for payload in payloads]

    async def aenqueue_many(self, template: Template, payloads: Sequence[str]) -> list[JobId | None]:
        """Only noted."""
        return self.enqueue_many(template, payloads)

    async def afinish(self) -> None:
        """Nothing is under way."""
