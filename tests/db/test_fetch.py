"""One Statement, two runners, and what a server's errors become."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import RawCursor
from psycopg.rows import dict_row

from tests.db.samples import EVERY_KIND, EVERY_KIND_BACK, ID, failing
from wakeful.database.fetch import afetch, fetch
from wakeful.statements.statement import Statement, nothing
from wakeful.testing import Database
from wakeful.values.errors import (
    DatabaseUnavailable,
    DuplicateJob,
    Refused,
    SchemaMismatch,
    StaleClaim,
    WakefulError,
)


async def test_every_kind_of_value_goes_in_and_comes_back_alike(database: Database) -> None:
    with database.connect() as conn:
        assert fetch(conn, EVERY_KIND) == EVERY_KIND_BACK
    async with await database.aconnect() as aconn:
        assert await afetch(aconn, EVERY_KIND) == EVERY_KIND_BACK


def test_a_callers_own_row_and_cursor_classes_do_not_matter(database: Database) -> None:
    with psycopg.connect(database.dsn, row_factory=dict_row, cursor_factory=RawCursor) as conn:
        assert fetch(conn, EVERY_KIND) == EVERY_KIND_BACK


def test_a_statement_without_rows_decodes_none(database: Database) -> None:
    with database.connect() as conn:
        assert fetch(conn, Statement("create table t ()", {}, len)) == 0


async def test_a_refused_fence_carries_the_job_and_ends_in_what_to_do(database: Database) -> None:
    refused = failing("WF001", "the claim is gone", {"id": str(ID)}, "drop this attempt's work")
    with database.connect() as conn, pytest.raises(StaleClaim) as caught:
        fetch(conn, refused)
    assert caught.value.job_id == ID
    assert str(caught.value) == "The claim is gone. Drop this attempt's work."
    assert isinstance(caught.value.__cause__, psycopg.Error)
    async with await database.aconnect() as aconn:
        with pytest.raises(StaleClaim, match="The claim is gone"):
            await afetch(aconn, refused)


def test_a_duplicate_carries_the_existing_job(database: Database) -> None:
    duplicate = failing("WF002", "a twin lives", {"id": str(ID), "task": "mail", "dedup_key": "k"})
    with database.connect() as conn, pytest.raises(DuplicateJob) as caught:
        fetch(conn, duplicate)
    assert (caught.value.existing_id, caught.value.task, caught.value.dedup_key) == (ID, "mail", "k")


def test_facts_of_other_errors_are_attributes_too(database: Database) -> None:
    with database.connect() as conn:
        with pytest.raises(Refused) as refused:
            fetch(conn, failing("WF005", "it runs", {"id": str(ID), "state": "running", "surprise": 1}))
        assert (refused.value.job_id, refused.value.state) == (ID, "running")


def test_a_detail_that_is_not_json_does_no_harm(database: Database) -> None:
    statement = Statement(
        "do $$ begin raise exception using errcode = 'WF001', message = 'gone', detail = 'no json'; end $$",
        {},
        nothing,
    )
    with database.connect() as conn, pytest.raises(StaleClaim, match=r"^Gone\.$"):
        fetch(conn, statement)


def test_a_missing_schema_says_to_migrate(blank_database: Database) -> None:
    with blank_database.connect() as conn:
        for text in ("select wakeful.now()", "select * from wakeful.jobs", "select * from wakeful.migration"):
            with pytest.raises(SchemaMismatch, match="wakeful migrate up"):
                fetch(conn, Statement(text, {}, nothing))


def test_a_missing_function_says_to_migrate(database: Database) -> None:
    with database.connect() as conn, pytest.raises(SchemaMismatch, match="wakeful migrate up") as caught:
        fetch(conn, Statement("select wakeful.not_yet_there(1)", {}, nothing))
    assert caught.value.state == "too old"


def test_a_users_own_missing_table_stays_the_drivers_error(database: Database) -> None:
    with database.connect() as conn, pytest.raises(psycopg.errors.UndefinedTable):
        fetch(conn, Statement("select * from nowhere", {}, nothing))


def test_a_denied_call_names_the_role_that_is_needed(database: Database) -> None:
    """For every function of ours that one of the roles may call, and for the views."""
    granted = """
        select p.oid::regprocedure::text, p.proname, array_agg(distinct r.rolname::text)
        from pg_proc p
        cross join lateral aclexplode(p.proacl) acl
        join pg_roles r on r.oid = acl.grantee and r.rolname ~ '^wakeful_'
        where p.pronamespace = 'wakeful'::regnamespace
        group by p.oid
    """
    with database.connect() as conn:
        for _, name, roles in conn.execute(granted).fetchall():
            with pytest.raises(Refused) as caught:
                fetch(conn, failing("42501", f"permission denied for function {name}"))
            assert any(f"grant {role} to" in str(caught.value) for role in roles), (name, roles)
        with pytest.raises(Refused, match="grant wakeful_viewer to"):
            fetch(conn, failing("42501", "permission denied for view jobs"))


def test_deadlocks_and_timeouts_stay_the_drivers_errors(database: Database) -> None:
    with database.connect() as conn:
        for state in ("40001", "40P01", "57014", "55P03"):
            with pytest.raises(psycopg.OperationalError) as caught:
                fetch(conn, failing(state, "as it is"))
            assert caught.value.sqlstate == state
            assert not isinstance(caught.value, WakefulError)


async def test_a_lost_connection_is_an_unavailable_database(database: Database) -> None:
    ask = Statement("select 1", {}, len)
    with database.connect() as killer, database.connect() as conn:
        killer.execute("select pg_terminate_backend(%s)", [conn.info.backend_pid])
        with pytest.raises(DatabaseUnavailable):
            fetch(conn, ask)
        with pytest.raises(DatabaseUnavailable, match="Try again when the server is back"):
            fetch(conn, ask)
    async with await database.aconnect() as aconn:
        await aconn.close()
        with pytest.raises(DatabaseUnavailable):
            await afetch(aconn, ask)


def test_a_read_only_server_is_an_unavailable_database(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("set default_transaction_read_only = on")
        with pytest.raises(DatabaseUnavailable, match="Connect to the primary"):
            fetch(conn, Statement("create table t ()", {}, nothing))
