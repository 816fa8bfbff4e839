"""The listening connection: hears at once, costs nothing while nothing is said, and tells when it is gone."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from wakeful.database.listen import Ear
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable


class CountingSelector(selectors.DefaultSelector):
    """How often the loop was woken."""

    waits = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waits += 1
        return super().select(timeout)


def run_counted(main: Coroutine[Any, Any, None], selector: CountingSelector) -> None:
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(main)


async def hear(ear: Ear, heard: asyncio.Queue[str]) -> None:
    async with aclosing(ear.payloads()) as payloads:  # type: ignore[type-var]
        async for payload in payloads:
            heard.put_nowait(payload)


async def next_of(heard: asyncio.Queue[str]) -> str:
    return await asyncio.wait_for(heard.get(), 20)


def test_it_wakes_the_loop_only_when_something_is_said(database: Database) -> None:
    selector = CountingSelector()

    async def main() -> None:
        ear, heard = await Ear.open(database.dsn, ["town"]), asyncio.Queue[str]()
        listening = asyncio.create_task(hear(ear, heard))
        await asyncio.sleep(0.1)
        before = selector.waits
        await asyncio.sleep(0.45)
        assert selector.waits - before <= 2
        with database.connect() as crier:
            crier.execute("select pg_notify('town', 'grüß Gott'), pg_notify('town', 'once more')")
        assert [await next_of(heard), await next_of(heard)] == ["grüß Gott", "once more"]
        listening.cancel()
        await asyncio.wait([listening])
        await ear.close()

    run_counted(main(), selector)


async def test_what_is_said_while_it_subscribes_is_heard(database: Database) -> None:
    ear, heard = await Ear.open(database.dsn, ["town"]), asyncio.Queue[str]()
    with database.connect() as crier:
        crier.execute("select pg_notify('town', 'early')")
    # An answer to a statement brings it along, and there it would stay.
    await ear._conn.execute("select 1")
    listening = asyncio.create_task(hear(ear, heard))
    assert await next_of(heard) == "early"
    listening.cancel()
    await asyncio.wait([listening])
    await ear.close()


async def test_a_connection_that_is_gone_is_told(database: Database) -> None:
    ear = await Ear.open(database.dsn, ["town"])
    listening = asyncio.create_task(hear(ear, asyncio.Queue()))
    await asyncio.sleep(0.05)
    with database.connect() as killer:
        killer.execute("select pg_terminate_backend(%s, 5000)", [ear._conn.info.backend_pid])
    with pytest.raises(DatabaseUnavailable):
        await asyncio.wait_for(listening, 10)
    await ear.close()
