"""Pools: lazy, silent while idle, honest about a server that is away, at home in every loop and process."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.conninfo import make_conninfo

from tests.db.cut_link import CutLink
from tests.sessions import until
from wakeful.database import shelf
from wakeful.database.async_pool import AsyncPool
from wakeful.database.migrations import acheck_compatible, check_compatible
from wakeful.database.pool import Pool
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable, SchemaMismatch

OPEN = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


def test_nothing_is_opened_before_the_first_use(database: Database) -> None:
    pool = Pool(database.dsn)
    with database.connect() as conn:
        assert conn.execute(OPEN).fetchone() == (0,)
    pool.close()


def test_a_connection_is_used_again(database: Database) -> None:
    pool = Pool(database.dsn)
    try:
        with pool.connection() as conn:
            first = conn.info.backend_pid
        with pool.connection() as conn:
            assert conn.info.backend_pid == first
            assert conn.autocommit
    finally:
        pool.close()


def test_many_threads_share_a_few_connections(database: Database) -> None:
    pool = Pool(database.dsn, size=3)

    def work(_: int) -> int:
        with pool.connection() as conn:
            conn.execute("select pg_sleep(0.001)")
            return conn.info.backend_pid

    try:
        with ThreadPoolExecutor(12) as threads:
            assert len(set(threads.map(work, range(100)))) <= 3
    finally:
        pool.close()


def test_a_closed_pool_leaves_no_connection_and_no_thread(database: Database) -> None:
    threads = threading.active_count()
    pool = Pool(database.dsn)
    with pool.connection():
        pass
    pool.close()
    pool.close()
    assert threading.active_count() == threads
    with database.connect() as conn:
        assert conn.execute(OPEN).fetchone() == (0,)


LEFT_OPEN = """
import atexit, sys, threading

atexit.register(lambda: print([one.name for one in threading.enumerate()]))

from wakeful.database.pool import Pool

pool = Pool(sys.argv[1])
with pool.connection() as conn:
    conn.execute("select 1")
"""


def test_a_pool_that_is_left_open_does_not_hold_up_the_end_of_the_process(database: Database) -> None:
    """What is registered first at exit runs last."""
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN, database.dsn], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("['MainThread']\n", "")


def test_an_idle_pool_sends_no_query(database: Database) -> None:
    pool = Pool(database.dsn)
    asked = "select query_start, state_change from pg_stat_activity where pid = %s"
    try:
        with pool.connection() as pooled:
            pid = pooled.info.backend_pid
        with database.connect() as conn:
            before = conn.execute(asked, [pid]).fetchone()
            conn.execute("select pg_sleep(0.4)")
            assert conn.execute(asked, [pid]).fetchone() == before
    finally:
        pool.close()


def test_connections_that_the_server_has_closed_are_replaced_unseen(database: Database) -> None:
    pool = Pool(database.dsn, size=3, wait_seconds=10)
    kill = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid = any(%s)"
    try:
        with pool.connection() as one, pool.connection() as two, pool.connection() as three:
            pids = [conn.info.backend_pid for conn in (one, two, three)]
        with database.connect() as killer:
            killer.execute(kill, [pids])
        with pool.connection() as conn:
            assert conn.execute("select 1").fetchone() == (1,)
            assert conn.info.backend_pid not in pids
    finally:
        pool.close()


def test_a_wrong_password_is_told_at_once(database: Database) -> None:
    pool = Pool(make_conninfo(database.dsn, password="hunter2"))
    with pytest.raises(DatabaseUnavailable, match="refused the password"), pool.connection():
        pass


def test_a_pool_that_is_used_up_says_so(database: Database) -> None:
    pool = Pool(database.dsn, size=1)
    try:
        with pool.connection():
            # Only now, because the first one may take its time.
            pool._wait_seconds = 0.05
            with pytest.raises(DatabaseUnavailable, match="All 1 pooled connections were in use"), pool.connection():
                pass
    finally:
        pool.close()


def test_the_schema_is_checked_before_the_first_connection_is_handed_out(blank_database: Database) -> None:
    pool = Pool(blank_database.dsn, check=check_compatible)
    with pytest.raises(SchemaMismatch, match="wakeful migrate up"), pool.connection():
        pass


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own(database: Database) -> None:
    pool = Pool(database.dsn)
    with pool.connection() as conn:
        parents = conn.info.backend_pid
    child = os.fork()
    if child == 0:
        with pool.connection() as conn:
            own = conn.info.backend_pid != parents and conn.execute("select 1").fetchone() == (1,)
        os._exit(0 if own else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with pool.connection() as conn:
        assert conn.info.backend_pid == parents
        assert conn.execute("select 1").fetchone() == (1,)
    pool.close()


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


def gone_within(database: Database, seconds: float) -> None:
    """Until the server has seen all connections but this one go."""
    ends = time.monotonic() + seconds
    with database.connect() as conn:
        while conn.execute(OPEN).fetchone() != (0,):
            assert time.monotonic() < ends, "connections were left behind"
            time.sleep(0.01)


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
    gone_within(database, 5)


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
    gone_within(database, 5)


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


def test_who_had_a_connection_waits_for_a_server_that_is_away(database: Database) -> None:
    link = CutLink(database.dsn)
    pool = Pool(link.dsn, size=2, wait_seconds=20)
    with pool.connection() as conn:
        conn.execute("select 1")
    link.close()
    kill = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid = %s"
    with database.connect() as killer:
        killer.execute(kill, [conn.info.backend_pid])
    back = threading.Timer(0.3, link.open)
    back.start()
    with pool.connection() as again:
        assert again.execute("select 1").fetchone() == (1,)
    back.join()
    pool.close()
    link.close()


def test_who_had_a_connection_is_told_why_there_is_none_any_more(database: Database) -> None:
    link = CutLink(database.dsn)
    pool = Pool(link.dsn, size=2, wait_seconds=0.3)
    with pool.connection(), pool.connection():
        link.close()
        with pytest.raises(DatabaseUnavailable, match="were in use"), pool.connection():
            pass
    with pool.connection() as left:
        left.execute("begin")
    with pool.connection() as left:
        left.execute("begin")
    with pytest.raises(DatabaseUnavailable, match="does not answer"), pool.connection():
        pass
    pool.close()


def test_a_connection_that_is_left_in_a_transaction_is_not_handed_on(database: Database) -> None:
    pool = Pool(database.dsn, size=1)
    with pool.connection() as conn:
        left = conn.info.backend_pid
        conn.execute("begin")
        conn.execute("create table half_done ()")
    with pool.connection() as conn:
        assert conn.info.backend_pid != left
        assert conn.execute("select to_regclass('half_done')").fetchone() == (None,)
    pool.close()


@pytest.mark.parametrize("limit", ["IDLE_SECONDS", "LIFE_SECONDS"])
def test_connections_are_not_kept_for_ever(database: Database, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    pool = Pool(database.dsn, size=2)
    monkeypatch.setattr(shelf, limit, 0.05)
    with pool.connection() as one, pool.connection() as two:
        pids = {one.info.backend_pid, two.info.backend_pid}
    time.sleep(0.1)
    for _ in range(2):
        with pool.connection() as conn:
            conn.execute("select 1")
    with database.connect() as conn:
        left = conn.execute("select pid from pg_stat_activity where pid = any(%s)", [list(pids)]).fetchall()
    assert len(left) == (1 if limit == "IDLE_SECONDS" else 0)
    pool.close()


def test_what_is_in_use_when_the_pool_is_closed_ends_when_it_comes_back(database: Database) -> None:
    pool = Pool(database.dsn)
    with pool.connection() as conn:
        pool.close()
        assert conn.execute("select 1").fetchone() == (1,)
    gone_within(database, 5)


def test_threads_that_wait_for_the_first_connection_fail_together(database: Database) -> None:
    tried: list[None] = []

    def refuse(_: object) -> None:
        tried.append(None)
        time.sleep(0.3)
        raise DatabaseUnavailable("No.")

    pool = Pool(database.dsn, check=refuse)

    def work(_: int) -> str:
        with pytest.raises(DatabaseUnavailable) as caught, pool.connection():
            raise AssertionError("There is a connection.")
        return str(caught.value)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == ["No."] * 8
    # One of them may have come too late to wait for the first.
    assert len(tried) <= 2


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
    with database.connect() as conn:
        until(lambda: conn.execute(OPEN).fetchone() == (0,))
    assert len(cancelled) == 40


def test_a_connection_that_would_begin_a_transaction_is_not_handed_on(database: Database) -> None:
    pool = Pool(database.dsn)
    try:
        with pool.connection() as conn:
            conn.autocommit = False
            conn.execute("create table kept (n int)")
            conn.commit()
        with pool.connection() as conn:
            conn.execute("insert into kept values (1)")
        with database.connect() as conn:
            assert conn.execute("select count(*) from kept").fetchone() == (1,)
    finally:
        pool.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_leaves_a_block_leaves_its_parents_connection_alone(database: Database) -> None:
    pool = Pool(database.dsn)
    with pool.connection() as conn:
        conn.execute("begin")
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            assert conn.execute("select 1").fetchone() == (1,)
    if not child:
        os._exit(0)
    pool.close()
