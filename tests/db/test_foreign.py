"""Enqueuing on a connection of the caller's: one job if they commit, none if they roll back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.db.samples import EVERY_KIND, EVERY_KIND_BACK, ID, failing
from tests.db.stacks import ASYNC, SYNC, Async, Sync
from wakeful.database.foreign import arun_on, run_on
from wakeful.statements.statement import Statement, first_value
from wakeful.testing import Database
from wakeful.values.errors import DuplicateJob, SchemaMismatch

each_sync_stack = pytest.mark.parametrize("stack", SYNC.values(), ids=SYNC.keys())
each_async_stack = pytest.mark.parametrize("stack", ASYNC.values(), ids=ASYNC.keys())


class ChangedTheirMind(Exception):
    """What a caller raises to roll their transaction back."""


def enqueue(id: UUID) -> Statement[UUID]:
    return Statement(
        """
        select wakeful.enqueue(%(task)s::text, %(payload)s::jsonb, id => %(id)s::uuid,
            delay => %(delay)s::interval, priority => %(priority)s::int, tenant => %(tenant)s::text)
        """,
        {
            "task": "mail",
            "payload": '{"to": "ann", "share": "100%"}',
            "id": id,
            "delay": timedelta(0),
            "priority": 5,
            "tenant": None,
        },
        first_value,
    )


@contextmanager
def sleeper(database: Database) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection that hears what a sleeping worker would."""
    worker_id = uuid4()
    with database.connect() as conn:
        conn.execute("insert into wakeful.sleeper (worker_id) values (%s)", [worker_id])
        conn.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(f"wakeful_{worker_id.hex}")))
        yield conn


def pokes(conn: psycopg.Connection[tuple[object, ...]], seconds: float) -> int:
    return len(list(conn.notifies(timeout=seconds, stop_after=1)))


def payloads(conn: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return conn.execute("select id, payload from wakeful.jobs").fetchall()


@each_sync_stack
def test_a_commit_leaves_one_job_and_pokes(database: Database, stack: Sync) -> None:
    id = uuid4()
    with sleeper(database) as outside:
        with stack(database) as conn:
            assert run_on(conn, enqueue(id)) == id
            assert payloads(outside) == []
            assert pokes(outside, 0) == 0
        assert payloads(outside) == [(id, {"to": "ann", "share": "100%"})]
        assert pokes(outside, 5) == 1


@each_sync_stack
def test_a_rollback_leaves_nothing(database: Database, stack: Sync) -> None:
    with sleeper(database) as outside:
        with suppress(ChangedTheirMind), stack(database) as conn:
            run_on(conn, enqueue(uuid4()))
            raise ChangedTheirMind
        assert payloads(outside) == []
        assert pokes(outside, 0.05) == 0


@each_async_stack
async def test_an_async_commit_leaves_one_job_and_pokes(database: Database, stack: Async) -> None:
    id = uuid4()
    with sleeper(database) as outside:
        async with stack(database) as conn:
            assert await arun_on(conn, enqueue(id)) == id
            assert payloads(outside) == []
            assert pokes(outside, 0) == 0
        assert payloads(outside) == [(id, {"to": "ann", "share": "100%"})]
        assert pokes(outside, 5) == 1


@each_async_stack
async def test_an_async_rollback_leaves_nothing(database: Database, stack: Async) -> None:
    with sleeper(database) as outside:
        with suppress(ChangedTheirMind):
            async with stack(database) as conn:
                await arun_on(conn, enqueue(uuid4()))
                raise ChangedTheirMind
        assert payloads(outside) == []
        assert pokes(outside, 0.05) == 0


@each_sync_stack
def test_every_kind_of_value_goes_in_and_comes_back_alike(database: Database, stack: Sync) -> None:
    with stack(database) as conn:
        assert run_on(conn, EVERY_KIND) == EVERY_KIND_BACK


@each_async_stack
async def test_every_kind_of_value_goes_in_and_comes_back_alike_async(database: Database, stack: Async) -> None:
    async with stack(database) as conn:
        assert await arun_on(conn, EVERY_KIND) == EVERY_KIND_BACK


DUPLICATE = failing("WF002", "a twin lives", {"id": str(ID)}, "wait for it")
MISSING = Statement("select wakeful.not_yet_there()", {}, first_value)


@each_sync_stack
def test_the_servers_errors_become_ours(database: Database, stack: Sync) -> None:
    with (
        pytest.raises(DuplicateJob, match=r"^A twin lives\. Wait for it\.$") as caught,
        stack(database) as conn,
    ):
        run_on(conn, DUPLICATE)
    assert caught.value.existing_id == ID
    with pytest.raises(SchemaMismatch, match="wakeful migrate up"), stack(database) as conn:
        run_on(conn, MISSING)


@each_async_stack
async def test_the_servers_errors_become_ours_async(database: Database, stack: Async) -> None:
    with pytest.raises(DuplicateJob, match=r"^A twin lives\. Wait for it\.$") as caught:
        async with stack(database) as conn:
            await arun_on(conn, DUPLICATE)
    assert caught.value.existing_id == ID
    with pytest.raises(SchemaMismatch, match="wakeful migrate up"):
        async with stack(database) as conn:
            await arun_on(conn, MISSING)
