"""What contexts ask of the worker: statements, transactions and enqueuing, on the app's own connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

from wakeful.database.foreign import arun_on, run_on
from wakeful.database.session import Database
from wakeful.statements.statement import Statement
from wakeful.values.job import JobId

T = TypeVar("T")


class Enqueues(Protocol):
    """The app, as far as a handler enqueues through it."""

    @property
    def enqueue(self) -> Callable[..., JobId | None]: ...

    @property
    def aenqueue(self) -> Callable[..., Awaitable[JobId | None]]: ...


class Desk:
    """Serves handlers on the loop and in threads."""

    def __init__(self, database: Database, app: Enqueues) -> None:
        self._database = database
        self._app = app

    async def arun(self, statement: Statement[T]) -> T:
        """Run and commit."""
        return await self._database.arun(statement)

    def run(self, statement: Statement[T]) -> T:
        """Run and commit."""
        return self._database.run(statement)

    async def arun_on(self, conn: object, statement: Statement[T]) -> T:
        """Run in the transaction of the user's connection, of whatever stack."""
        return await arun_on(conn, statement)

    def run_on(self, conn: object, statement: Statement[T]) -> T:
        """Run in the transaction of the user's connection, of whatever stack."""
        return run_on(conn, statement)

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[Any]:
        """A connection in a transaction that commits at the end of the block."""
        async with self._database.atransaction() as conn:
            yield conn

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A connection in a transaction that commits at the end of the block."""
        with self._database.transaction() as conn:
            yield conn

    async def aenqueue(
        self, task: str, payload: Mapping[str, object] | None, options: Mapping[str, Any]
    ) -> JobId | None:
        """Enqueue a child of the running job."""
        return await self._app.aenqueue(task, payload, **options)

    def enqueue(self, task: str, payload: Mapping[str, object] | None, options: Mapping[str, Any]) -> JobId | None:
        """Enqueue a child of the running job."""
        return self._app.enqueue(task, payload, **options)
