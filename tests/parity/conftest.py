"""An app on a test's database, and both forms of its verbs under one name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.sessions import Session, session
from wakeful import Wakeful
from wakeful.testing import Database


class Form:
    """`await form(task).enqueue(…)` calls `enqueue` in a thread, or awaits `aenqueue`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, owner: Any) -> Verbs:
        return Verbs(owner, self.name)


class Verbs:
    """The verbs of an app or a task, in one form."""

    def __init__(self, owner: Any, form: str) -> None:
        self._owner = owner
        self._form = form

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if self._form == "async":
            awaited: Callable[..., Awaitable[Any]] = getattr(self._owner, f"a{name}")
            return awaited
        blocking = getattr(self._owner, name)
        return lambda *args, **kwargs: asyncio.to_thread(blocking, *args, **kwargs)


@pytest.fixture(params=["sync", "async"])
def form(request: pytest.FixtureRequest) -> Form:
    return Form(request.param)


@pytest.fixture
async def app(database: Database) -> AsyncIterator[Wakeful]:
    async with Wakeful(database.dsn) as made:
        yield made


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn
