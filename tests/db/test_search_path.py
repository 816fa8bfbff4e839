"""A role that plants objects of known names before ours changes nothing of what the functions do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from tests.sessions import Session, query, scalar, session
from wakeful.testing import Database

PLANTED_FUNCTIONS = (
    "now() returns timestamptz language sql as 'select ''1970-01-01''::timestamptz'",
    "clock_timestamp() returns timestamptz language sql as 'select ''1970-01-01''::timestamptz'",
    "coalesce_trap() returns void language sql as ''",
    "unnest(uuid[]) returns setof uuid language sql as 'select null::uuid where false'",
    "unnest(text[]) returns setof text language sql as 'select ''stolen'''",
    "cardinality(anyarray) returns integer language sql as 'select 0'",
    "jsonb_build_object(variadic text[]) returns jsonb language sql as 'select ''{}''::jsonb'",
    "pg_notify(text, text) returns void language plpgsql as 'begin raise ''stolen''; end'",
    "current_setting(text) returns text language plpgsql as 'begin raise ''stolen''; end'",
    "format(text, text) returns text language plpgsql as 'begin raise ''stolen''; end'",
    "gen_random_uuid() returns uuid language sql as 'select ''00000000-0000-0000-0000-000000000000''::uuid'",
    "never(uuid, uuid) returns boolean language plpgsql as 'begin raise ''stolen''; end'",
    "never(text, text) returns boolean language plpgsql as 'begin raise ''stolen''; end'",
    "never(bigint, bigint) returns boolean language plpgsql as 'begin raise ''stolen''; end'",
    "never(timestamptz, timestamptz) returns boolean language plpgsql as 'begin raise ''stolen''; end'",
)
PLANTED_OPERATORS = (
    "= (leftarg = uuid, rightarg = uuid, function = {schema}.never)",
    "= (leftarg = text, rightarg = text, function = {schema}.never)",
    "= (leftarg = bigint, rightarg = bigint, function = {schema}.never)",
    "> (leftarg = timestamptz, rightarg = timestamptz, function = {schema}.never)",
    "<= (leftarg = timestamptz, rightarg = timestamptz, function = {schema}.never)",
)
TABLES = ("job", "finished_job", "dead_letter", "control", "sleeper", "worker", "tally_delta", "setting")

_numbers = count()


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@pytest.fixture
def attacker(db: Session) -> Iterator[str]:
    """A role with all of our roles, who may create in public, on temporary ground, and in a schema of its own."""
    name = f"wakeful_test_attacker_{os.getpid()}_{next(_numbers)}"
    who = sql.Identifier(name)
    db.execute(sql.SQL("create role {}").format(who))
    db.execute(sql.SQL("grant wakeful_producer, wakeful_worker, wakeful_viewer, wakeful_operator to {}").format(who))
    db.execute(sql.SQL("grant create on schema public to {}").format(who))
    db.execute(sql.SQL("create schema {} authorization {}").format(who, who))
    yield name
    db.execute("reset role")
    db.execute(sql.SQL("drop owned by {} cascade").format(who))
    db.execute(sql.SQL("drop role {}").format(who))


def plant(db: Session, schema: str) -> None:
    """Create everything that could stand in for ours, in one schema."""
    for function in PLANTED_FUNCTIONS:
        db.execute(f"create function {schema}.{function}".encode())
    for operator in PLANTED_OPERATORS:
        db.execute(f"create operator {schema}.{operator.format(schema=schema)}".encode())
    db.execute(f"create domain {schema}.position as text".encode())
    for table in TABLES:
        db.execute(f"create table {schema}.{table} (id uuid)".encode())


def live(db: Session) -> UUID:
    """A job's whole life by the functions, and the proof that the true tables hold it."""
    id, worker = uuid4(), uuid4()
    assert scalar(db, "select wakeful.enqueue('t', '{}', id => %s, dedup_key => 'k')", id) == id
    assert scalar(db, "select wakeful.enqueue('t', '{}', dedup_key => 'k')") == id
    [held] = query(db, "select id, epoch from wakeful.claim(%s, lease => '1 hour')", worker)
    assert held["id"] == id
    with pytest.raises(psycopg.Error) as refused:
        db.execute("select wakeful.complete(%s, %s, %s)", [id, held["epoch"], uuid4()])
    assert refused.value.sqlstate == "WF001"
    assert scalar(db, "select wakeful.extend(%s, %s, %s, '1 hour')", id, held["epoch"], worker) is True
    db.execute("select wakeful.complete(%s, %s, %s, '1')", [id, held["epoch"], worker])
    assert scalar(db, "select wakeful.cancel(wakeful.enqueue('u', '{}'))") == "cancelled"
    [row] = query(db, "select state, result from wakeful.jobs where id operator(pg_catalog.=) %s", id)
    assert row == {"state": "completed", "result": 1}
    return id


@pytest.mark.parametrize("where", ["public", "own"])
@pytest.mark.parametrize("path", ["{schema}, pg_catalog", "{schema}, wakeful, pg_temp, pg_catalog"])
def test_planted_functions_operators_and_tables_are_never_met(
    db: Session, attacker: str, where: str, path: str
) -> None:
    schema = "public" if where == "public" else attacker
    db.execute(sql.SQL("set role {}").format(sql.Identifier(attacker)))
    plant(db, schema)
    db.execute("select set_config('search_path', %s, false)", [path.format(schema=schema)])
    live(db)
    assert scalar(db, f"select count(*) from {schema}.job") == 0


def test_temporary_tables_of_our_names_are_never_met(db: Session, attacker: str) -> None:
    db.execute(sql.SQL("set role {}").format(sql.Identifier(attacker)))
    for table in TABLES:
        db.execute(f"create temporary table {table} (like wakeful.audits, id_ uuid)".encode())
    db.execute("set search_path = pg_temp, pg_catalog, wakeful")
    live(db)
    assert scalar(db, "select count(*) from pg_temp.job") == 0


def test_a_temporary_type_of_a_known_name_is_never_met(db: Session, attacker: str) -> None:
    db.execute(sql.SQL("set role {}").format(sql.Identifier(attacker)))
    for name in ("uuid", "text", "jsonb", "timestamptz", "interval"):
        db.execute(f"create temporary table {name} (x int)".encode())
    db.execute("set search_path = pg_temp, pg_catalog")
    live(db)


def test_the_clock_of_the_queue_cannot_be_moved_by_a_caller(db: Session, attacker: str) -> None:
    db.execute(sql.SQL("set role {}").format(sql.Identifier(attacker)))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute("create or replace function wakeful.now() returns timestamptz language sql return 'epoch'")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute("create table wakeful.planted ()")


@pytest.mark.parametrize(
    "setting",
    [
        "set enable_indexscan = off",
        "set datestyle = 'SQL, DMY'",
        "set timezone = 'Asia/Kolkata'",
        "set intervalstyle = 'iso_8601'",
        "set bytea_output = 'escape'",
        "set extra_float_digits = -15",
        "set transform_null_equals = on",
        "set standard_conforming_strings = off",
        "set array_nulls = off",
        "set default_transaction_isolation = 'serializable'",
        "set plan_cache_mode = 'force_generic_plan'",
        "set jit_above_cost = 0",
    ],
)
def test_what_a_session_has_set_changes_nothing(db: Session, setting: str) -> None:
    if "standard_conforming" in setting and db.info.server_version >= 190000:
        pytest.skip("cannot be set any more")
    db.execute(setting.encode())
    live(db)
