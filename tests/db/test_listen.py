"""The listening connection: hears at once, costs nothing while nothing is said, and tells when it is gone."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

import pytest

from wakeful.database.listen import Ear, Heard
from wakeful.statements import fleet
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable
from wakeful.values.identity import new_id


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
    await ear.listen(lambda notice: heard.put_nowait(notice.payload))


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


async def test_it_says_by_which_channel_it_heard(database: Database) -> None:
    ear, heard = await Ear.open(database.dsn, ["town", "country"]), asyncio.Queue[Heard]()
    listening = asyncio.create_task(ear.listen(heard.put_nowait))
    with database.connect() as crier:
        crier.execute("select pg_notify('country', 'a'), pg_notify('town', 'b')")
    assert [await heard.get(), await heard.get()] == [("country", "a"), ("town", "b")]
    listening.cancel()
    await asyncio.wait([listening])
    await ear.close()


async def test_who_cannot_cope_with_what_it_hears_is_told(database: Database) -> None:
    def cope(heard: Heard) -> None:
        raise ValueError(heard.payload)

    ear = await Ear.open(database.dsn, ["town"])
    listening = asyncio.create_task(ear.listen(cope))
    await asyncio.sleep(0.05)
    with database.connect() as crier:
        crier.execute("select pg_notify('town', 'unheard of')")
    with pytest.raises(ValueError, match="unheard of"):
        await asyncio.wait_for(listening, 10)
    await ear.close()


async def test_a_channel_that_is_nobody_elses_is_no_part_of_what_was_asked_last(database: Database) -> None:
    """Whoever may read the server's statistics sees the text of a session's last statement."""
    worker = new_id()
    ear = await Ear.open(database.dsn, ["town"], fleet.attend(worker, "a_secret"))
    with database.connect() as conn:
        [(asked,)] = conn.execute(
            "select query from pg_stat_activity where pid = %s", [ear._conn.info.backend_pid]
        ).fetchall()
    assert asked.startswith("listen")
    assert "a_secret" not in asked
    await ear.close()
