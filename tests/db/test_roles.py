"""Who may call what: every role against every function, table and view, each denied cell asserted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.sessions import Session, query, scalar, session, sqlstate_of
from wakeful.testing import Database

PRODUCER, WORKER, VIEWER, OPERATOR = (*("wakeful_producer", "wakeful_worker", "wakeful_viewer", "wakeful_operator"),)
ROLES = (PRODUCER, WORKER, VIEWER, OPERATOR)

EVERYONE = {"now", "new_id", "dedup_key", "canonical_json", "state_name", "last_error", "backoff"}
ENQUEUING = {
    *("enqueue", "enqueue_many", "enqueue_one_1", "enqueue_batch_1", "reach_disk_1"),
    *("enter_breaker_1", "leave_breaker_1"),
}
WORKING = {
    *("claim", "claim_1", "claim_poked_1", "claim_any_1", "wake_1", "pulse_1", "attend_1", "accept_1"),
    *("register_1", "beat_1", "held_1", "leave_1"),
    *("complete", "complete_1", "completed_by_1", "fail", "settle_1", "snooze", "release", "extend"),
    *("extend_1", "note_1", "declare_1"),
    *("promote", "rescue", "expire", "make_days", "drop_days", "fold_tally", "upkeep_1"),
    *("fire_1", "declare_schedules_1"),
    *("fold_metrics", "roll_metrics", "tell_1", "watch_1", "health", "vitals", "depths"),
}
OPERATING = {
    *("cancel", "cancel_many", "requeue", "retry_now", "bury", "acknowledge", "purge", "cleanup"),
    *("pause_queue", "resume_queue", "pause_task", "resume_task", "switch_task"),
    *("add_schedule", "change_schedule", "remove_schedule", "pause_schedule", "resume_schedule", "run_schedule"),
    *("import_rows", "return_rows", "kept_rows"),
    *("trip_breaker", "reset_breaker", "set_breaker", "set_task_policy", "set_queue_policy"),
}
READING = {
    "stats",
    "find_jobs",
    "search_jobs",
    "health",
    "vitals",
    "depths",
    "explain",
    "task_metrics",
    "metrics_summary",
}
MAY_CALL = {
    PRODUCER: EVERYONE | ENQUEUING,
    WORKER: EVERYONE | ENQUEUING | WORKING,
    VIEWER: EVERYONE | READING,
    OPERATOR: EVERYONE | ENQUEUING | OPERATING | READING,
}
MAY_READ = {VIEWER, OPERATOR}
VIEWS = {
    *("jobs", "dead_letters", "queue_health", "queues", "workers", "controls", "audits", "schedules"),
    *("job_metrics", "usages", "alerts", "imports", "breakers", "policies"),
}
# Every client asks at its start which version of the schema it meets.
LEDGER = "migration"

_numbers = count()


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        # So that types are told by their full names, whatever the owner is called.
        conn.execute("set search_path = pg_catalog")
        yield conn


@pytest.fixture
def stranger(db: Session) -> Iterator[str]:
    """A role that was granted nothing."""
    name = f"wakeful_test_stranger_{os.getpid()}_{next(_numbers)}"
    db.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
    yield name
    db.execute("reset role")
    db.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
    db.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def become(db: Session, role: str) -> None:
    db.execute(sql.SQL("set role {}").format(sql.Identifier(role)))


def functions(db: Session) -> list[dict[str, Any]]:
    return query(
        db,
        "select p.oid, p.proname as name, p.pronargs - p.pronargdefaults as needed, p.prosecdef as definer,"
        " p.proconfig as config, p.prosrc as source,"
        " array(select format_type(t, null) from unnest(p.proargtypes) t) as types"
        " from pg_proc p where p.pronamespace = 'wakeful'::regnamespace order by p.proname",
    )


def relations(db: Session, *kinds: str) -> list[str]:
    rows = query(
        db,
        "select relname from pg_class where relnamespace = 'wakeful'::regnamespace and relkind = any(%s) order by 1",
        list(kinds),
    )
    return [row["relname"] for row in rows]


def test_every_function_is_granted_to_those_who_need_it_and_to_nobody_else(db: Session, stranger: str) -> None:
    found = functions(db)
    named = {row["name"] for row in found}
    assert named >= set().union(*MAY_CALL.values()), "the matrix names a function that is not there"
    wrong = [
        (role, row["name"])
        for role in (*ROLES, stranger)
        for row in found
        if scalar(db, "select has_function_privilege(%s, %s::oid, 'execute')", role, row["oid"])
        != (row["name"] in MAY_CALL.get(role, set()))
    ]
    assert wrong == []


def test_a_function_that_is_not_granted_cannot_be_called(db: Session, stranger: str) -> None:
    """Every denied cell, by a real call with nulls: the refusal comes before the function runs."""
    found = functions(db)
    denied = 0
    for role in (*ROLES, stranger):
        become(db, role)
        for row in found:
            if row["name"] in MAY_CALL.get(role, set()) or row["types"] == ["internal"]:
                continue
            # From a query each, or a strict function of constant nulls would be answered without being called.
            nulls = ", ".join(f"(select null::{kind} limit 1)" for kind in row["types"])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                db.execute(f"select wakeful.{row['name']}({nulls})".encode())
            denied += 1
        db.execute("reset role")
    assert denied > 200


@pytest.mark.parametrize("role", ROLES)
def test_what_is_granted_can_be_called(db: Session, role: str) -> None:
    """A real call as the role: a refusal of ours is fine, one for want of a privilege is not."""
    granted = [row for row in functions(db) if row["name"] in MAY_CALL[role]]
    become(db, role)
    for row in granted:
        nulls = ", ".join(f"null::{kind}" for kind in row["types"])
        statement = f"select wakeful.{row['name']}({nulls})".encode()
        assert sqlstate_of(partial(db.execute, statement)) != "42501", row["name"]


def test_a_producer_enqueues_and_does_nothing_else(db: Session) -> None:
    become(db, PRODUCER)
    assert scalar(db, "select wakeful.enqueue('t', '{}')") is not None
    for statement in (
        "select * from wakeful.claim(gen_random_uuid())",
        "select wakeful.cancel(gen_random_uuid())",
        "select * from wakeful.stats()",
        "select * from wakeful.jobs",
        "select * from wakeful.job",
        "select wakeful.poke('q', 't', now(), 0::smallint, now(), gen_random_uuid())",
        "select wakeful.insert_asked('{}', '{}', now())",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute(statement.encode())


def test_a_worker_carries_a_job_through_its_life_and_reads_no_table(db: Session) -> None:
    become(db, WORKER)
    worker = uuid4()
    db.execute("select wakeful.register_1(%s, 'w', null, '{t}', 1, '1 hour')", [worker])
    db.execute("select wakeful.enqueue('t', '{}')")
    [job] = query(db, "select id, epoch from wakeful.claim(%s)", worker)
    db.execute("select wakeful.complete(%s, %s, %s)", [job["id"], job["epoch"], worker])
    db.execute("select wakeful.upkeep_1('1 year')")
    for statement in ("select * from wakeful.jobs", "select wakeful.cancel(gen_random_uuid())"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute(statement.encode())


@pytest.mark.parametrize("role", sorted(MAY_READ))
def test_viewers_and_operators_read_every_view(db: Session, role: str) -> None:
    db.execute("select wakeful.enqueue('t', '{}')")
    db.execute("select wakeful.bury(wakeful.enqueue('t', '{}'), 'why')")
    become(db, role)
    for view in VIEWS:
        db.execute(f"select * from wakeful.{view}".encode())
    assert len(query(db, "select * from wakeful.jobs")) == 2


def test_no_role_touches_a_table_and_only_readers_read_views(db: Session, stranger: str) -> None:
    assert set(relations(db, "v")) == VIEWS
    wrong = []
    for role in (*ROLES, stranger):
        for name in relations(db, "r", "p", "v", "S"):
            for privilege in ("select", "insert", "update", "delete", "truncate", "references", "trigger"):
                may = scalar(db, "select has_table_privilege(%s, %s, %s)", role, f"wakeful.{name}", privilege)
                allowed = privilege == "select" and ((name in VIEWS and role in MAY_READ) or name == LEDGER)
                if may != allowed:
                    wrong.append((role, name, privilege))
    assert wrong == []


def test_no_column_is_granted_behind_the_tables_back(db: Session) -> None:
    granted = query(
        db,
        "select c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " where c.relnamespace = 'wakeful'::regnamespace and a.attacl is not null",
    )
    assert granted == []


def test_a_stranger_does_not_even_see_into_the_schema(db: Session, stranger: str) -> None:
    for role in ROLES:
        assert scalar(db, "select has_schema_privilege(%s, 'wakeful', 'usage')", role)
        assert not scalar(db, "select has_schema_privilege(%s, 'wakeful', 'create')", role)
    become(db, stranger)
    for statement in ("select wakeful.now()", "select * from wakeful.migration", "select * from wakeful.jobs"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute(statement.encode())


def test_who_is_granted_a_role_has_its_verbs_and_no_others(db: Session, stranger: str) -> None:
    db.execute(sql.SQL("grant wakeful_producer to {}").format(sql.Identifier(stranger)))
    become(db, stranger)
    assert scalar(db, "select wakeful.enqueue('t', '{}')") is not None
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute("select * from wakeful.stats()")


def test_every_function_that_acts_as_the_owner_pins_its_search_path(db: Session) -> None:
    loose = [
        row["name"]
        for row in functions(db)
        if row["definer"] and "search_path=pg_catalog, pg_temp" not in (row["config"] or [])
    ]
    assert loose == []


def test_every_function_whose_body_is_text_pins_its_search_path(db: Session) -> None:
    """A body that was parsed when it was made needs none: its names are settled."""
    loose = [
        row["name"]
        for row in functions(db)
        if row["source"] and not any(set_.startswith("search_path=") for set_ in row["config"] or [])
    ]
    assert loose == []
