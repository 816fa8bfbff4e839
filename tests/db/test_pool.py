"""Pools: lazy, silent while idle, honest about a server that is away, at home in every loop and process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.conninfo import make_conninfo

from tests.db.connections import OPEN, gone
from tests.db.cut_link import CutLink
from wakeful.database import shelf
from wakeful.database.migrations import check_compatible
from wakeful.database.pool import Pool
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable, SchemaMismatch


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
    gone(database)


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
