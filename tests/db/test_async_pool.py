"""Async pools: at home in every loop, and gone with it at any moment."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.db.connections import OPEN, gone
from wakeful.database.async_pool import AsyncPool, _LoopPool
from wakeful.database.migrations import acheck_compatible
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable, SchemaMismatch


async def test_async_callers_share_a_few_connections(database: Database) -> None:
    pool = AsyncPool(database.dsn, size=3)

    async def work() -> int:
        async with pool.connection() as conn:
            await conn.execute("select pg_sleep(0.001)")
            return conn.info.backend_pid

    assert len(set(await asyncio.gather(*(work() for _ in range(100))))) <= 3
    pool.close()
    async with await database.aconnect() as conn:
        assert await (await conn.execute(OPEN)).fetchone() == (0,)


def test_each_loop_gets_connections_of_its_own_and_a_closed_loops_are_hung_up(database: Database) -> None:
    pool = AsyncPool(database.dsn)

    async def work() -> int:
        async with pool.connection() as conn:
            await conn.execute("select 1")
            return conn.info.backend_pid

    first = asyncio.run(work())
    second = asyncio.run(work())
    assert first != second
    with database.connect() as conn:
        gone = "select count(*) from pg_stat_activity where pid = %s"
        conn.execute("select pg_sleep(0.05)")
        assert conn.execute(gone, [first]).fetchone() == (0,)
    pool.abandon()
    gc.collect()


async def test_async_connections_that_the_server_has_closed_are_replaced_unseen(database: Database) -> None:
    pool = AsyncPool(database.dsn, size=2, wait_seconds=10)
    async with pool.connection() as one, pool.connection() as two:
        pids = [one.info.backend_pid, two.info.backend_pid]
    with database.connect() as killer:
        killer.execute("select pg_terminate_backend(pid, 5000) from unnest(%s::int[]) pid", [pids])
    async with pool.connection() as conn:
        assert await (await conn.execute("select 1")).fetchone() == (1,)
        assert conn.info.backend_pid not in pids
    pool.close()


async def test_an_async_pool_tells_why_there_is_no_connection(database: Database, blank_database: Database) -> None:
    refused = AsyncPool(make_conninfo(database.dsn, password="hunter2"))
    with pytest.raises(DatabaseUnavailable, match="refused the password"):
        async with refused.connection():
            pass
    empty = AsyncPool(blank_database.dsn, check=acheck_compatible)
    with pytest.raises(SchemaMismatch, match="wakeful migrate up"):
        async with empty.connection():
            pass
    small = AsyncPool(database.dsn, size=1)
    async with small.connection():
        small._wait_seconds = 0.05
        with pytest.raises(DatabaseUnavailable, match="were in use"):
            async with small.connection():
                pass
    small.close()


def run_until(database: Database, seconds: float) -> None:
    """An event loop that ends while the pool is, perhaps, connecting."""
    pool = AsyncPool(database.dsn, size=4)

    async def work() -> None:
        async with pool.connection() as conn:
            await conn.execute("select pg_sleep(0.001)")

    async def main() -> None:
        callers = [asyncio.create_task(work()) for _ in range(8)]
        await asyncio.wait(callers, timeout=seconds)

    asyncio.run(main())
    pool.abandon()


def test_a_loop_can_end_at_any_moment(database: Database) -> None:
    """In a thread: a pool whose own tasks outlive their cancellation would keep the loop, and the test, for ever."""
    for step in range(30):
        ending = threading.Thread(target=run_until, args=(database, step / 1000), daemon=True)
        ending.start()
        ending.join(20)
        assert not ending.is_alive(), f"the loop that was ended after {step} ms did not end"
    gone(database)


def test_a_loop_that_is_closed_without_a_word_leaves_no_task(database: Database) -> None:
    pool = AsyncPool(database.dsn)

    async def work() -> set[asyncio.Task[object]]:
        async with pool.connection() as conn:
            await conn.execute("select 1")
        return asyncio.all_tasks() - {asyncio.current_task()}

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(work()) == set()
    loop.close()
    pool.abandon()
    gone(database)


def test_a_caller_that_is_cancelled_while_it_waits_leaves_its_place_to_others(database: Database) -> None:
    async def main() -> None:
        pool = AsyncPool(database.dsn, size=1, wait_seconds=20)

        async def work() -> None:
            async with pool.connection() as conn:
                await conn.execute("select 1")

        async with pool.connection():
            waiting = [asyncio.create_task(work()) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
        await asyncio.wait(waiting)
        assert [task.cancelled() for task in waiting] == [True, False, False]
        pool.close()

    asyncio.run(main())


async def test_tasks_that_wait_for_the_first_connection_fail_together(database: Database) -> None:
    tried: list[None] = []

    async def refuse(_: object) -> None:
        tried.append(None)
        await asyncio.sleep(0.05)
        raise DatabaseUnavailable("No.")

    pool = AsyncPool(database.dsn, check=refuse)

    async def work() -> None:
        async with pool.connection():
            pass

    failed = await asyncio.gather(*(work() for _ in range(8)), return_exceptions=True)
    assert [str(one) for one in failed] == ["No."] * 8
    assert len(tried) == 1
    # Who comes now tries anew.
    with pytest.raises(DatabaseUnavailable):
        await work()
    assert len(tried) == 2


async def test_a_task_that_was_cancelled_while_it_connected_keeps_no_connection(database: Database) -> None:
    pool = AsyncPool(database.dsn, size=8)
    async with pool.connection():
        pass

    async def work() -> None:
        async with pool.connection() as conn:
            # Not put back: the next one connects again.
            await conn.execute("begin")

    cancelled = []
    for n in range(40):
        task = asyncio.create_task(work())
        asyncio.get_running_loop().call_later(0.001 + n * 0.0002, task.cancel)
        await asyncio.wait([task])
        cancelled.append(task)
    pool.close()
    gone(database)
    assert len(cancelled) == 40


def test_a_closed_loop_that_two_threads_forget_is_forgotten(database: Database) -> None:
    pool = AsyncPool(database.dsn)

    class Forgotten:
        def is_closed(self) -> bool:
            # The other thread was quicker.
            pool._loops.clear()
            return True

    loop: Any = Forgotten()
    pool._loops[loop] = _LoopPool(1)
    pool._forget_closed_loops()
    assert not pool._loops
