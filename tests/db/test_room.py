"""Whose turn it is: of threads that wait for a connection, and of tasks that share one."""

from __future__ import annotations

import asyncio
import threading

from tests.sessions import until
from wakeful.database.line import AsyncLine
from wakeful.database.pool import Pool
from wakeful.database.room import Room
from wakeful.statements.statement import Statement
from wakeful.testing import Database


def test_who_waits_longest_is_next(database: Database) -> None:
    pool = Pool(database.dsn, size=1)
    came = threading.Event()

    def wait() -> None:
        with pool.connection():
            came.set()

    waiter = threading.Thread(target=wait)
    try:
        with pool.connection():
            waiter.start()
            until(lambda: len(pool._room._line) == 1)
        # Whoever has just left it must not be in again before those who waited.
        with pool.connection():
            assert came.is_set()
    finally:
        waiter.join()
        pool.close()


def test_a_turn_that_nobody_takes_any_more_goes_to_the_next() -> None:
    room = Room(1)
    assert room.acquire(timeout=0)
    assert not room.acquire(timeout=0.01)
    room.release()
    assert room.acquire(timeout=0)
    assert not room.acquire(timeout=0)


async def test_two_who_use_a_line_share_its_connection(database: Database) -> None:
    line = AsyncLine(database.dsn, name="line")
    one = Statement("select 1", {}, lambda rows: rows[0][0])
    assert await asyncio.gather(*(line.run(one) for _ in range(4))) == [1] * 4
    with database.connect() as conn:
        named = "select count(*) from pg_stat_activity where application_name = 'line'"
        assert conn.execute(named).fetchone() == (1,)
    await line.close()
