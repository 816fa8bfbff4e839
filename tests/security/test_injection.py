"""Hostile text through every name, label and filter: stored as it is or refused in a sentence, never run."""

from __future__ import annotations

from itertools import product
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.sessions import Session, call, query, scalar, session, value
from wakeful.app import Wakeful
from wakeful.testing import Database
from wakeful.values.errors import WakefulError

CORPUS = [
    "'; drop table wakeful.job; --",
    "' or '1'='1",
    '"; drop schema wakeful cascade; --',
    "\\'; select pg_sleep(10); --",
    "$$; drop table wakeful.job; $$",
    "%s %(name)s %%",
    "{0.__class__} {task}",
    "a'||(select password from pg_shadow limit 1)||'",
    "1); delete from wakeful.job; --",
    "pg_catalog.pg_sleep(10)",
    "*/ drop table wakeful.job /*",
    "%",
    "_",
    "../../etc/passwd",
    "${jndi:ldap://x}",
    "＇; drop table wakeful.job; --",
]
TEXT_OPTIONS = ("queue", "dedup_key", "tenant", "created_by")


@pytest.fixture
def db(database: Database) -> Any:
    with session(database.dsn) as conn:
        yield conn


def shape(db: Session) -> Any:
    """What the schema is made of; an injection would show in it."""
    return scalar(db, "select count(*) from pg_class where relnamespace = 'wakeful'::regnamespace")


def test_names_and_labels_are_stored_as_they_are_or_refused(db: Session) -> None:
    before = shape(db)
    for text in CORPUS:
        for option in TEXT_OPTIONS:
            id = value(db, "enqueue", task="t", payload={text: text}, **{option: text})
            [row] = query(db, "select * from wakeful.jobs where id = %s", id)
            assert (row[option], row["payload"]) == (text, {text: text})
        id = value(db, "enqueue", task=text, payload={})
        assert scalar(db, "select task from wakeful.jobs where id = %s", id) == text
        value(db, "cancel", id=id, reason=text, actor=text)
        assert scalar(db, "select cancel_reason from wakeful.jobs where id = %s", id) == text
    assert shape(db) == before


def test_filters_find_the_text_and_nothing_else(db: Session) -> None:
    before = shape(db)
    for text in CORPUS:
        other = value(db, "enqueue", task="other", payload={"a": 1}, queue="other", tenant="other")
        id = value(db, "enqueue", task=text, payload={"k": text}, queue=text, tenant=text)
        for asked in ({"task": text}, {"queue": text}, {"tenant": text}, {"payload": {"k": text}}):
            assert [row["id"] for row in call(db, "find_jobs", **asked)] == [id], asked
        assert call(db, "find_jobs", error=text) == []
        assert scalar(db, "select count(*) from wakeful.job where id = %s", other) == 1
    assert shape(db) == before


def test_fleet_and_switches_take_any_text(db: Session) -> None:
    before = shape(db)
    for text in CORPUS:
        worker = uuid4()
        names = {"name": text, "queues": [text], "tasks": [text], "details": {text: text}}
        call(db, "register_1", worker_id=worker, slots=1, lease="1 minute", **names)
        assert scalar(db, "select name from wakeful.workers where id = %s", worker) == text
        id = value(db, "enqueue", task=text, payload={}, queue=text)
        lanes: dict[str, Any] = {"queues": [text], "lanes": [1], "limits": [1], "tasks": [text]}
        taken = call(db, "claim_1", worker_id=worker, **lanes, sleeps="these")
        assert taken[0]["id"] == id
        error = {"code": text, "message": text, "details": {text: text}, "no_retry": True}
        call(db, "fail", id=id, epoch=1, worker_id=worker, **error)
        assert scalar(db, "select last_error_message from wakeful.jobs where id = %s", id) == text
        found = {row["id"]: row["last_error_message"] for row in call(db, "find_jobs", error=text)}
        assert id in found
        assert all(text in message for message in found.values()), "no sign of it means anything but itself"
    assert shape(db) == before


async def test_the_python_doors_store_it_or_refuse_it(database: Database, db: Session) -> None:
    before = shape(db)
    async with Wakeful(database.dsn) as app:

        @app.task(name="t")
        async def t(word: str) -> None:
            pass

        for text, option in product(CORPUS, TEXT_OPTIONS):
            options: Any = {option: text}
            id = refusal = None
            try:
                id = await t.using(**options).aenqueue(text)
            except WakefulError as refused:
                refusal = str(refused)
            rows = query(db, "select * from wakeful.jobs where id = %s", id)
            assert [(row["payload"], row[option]) for row in rows] == ([] if refusal else [({"word": text}, text)])
            assert refusal is None or refusal.endswith("."), "a refusal is a sentence"
    assert shape(db) == before


def test_forged_ids_and_epochs_change_nothing(db: Session) -> None:
    id = value(db, "enqueue", task="t", payload={})
    worker = uuid4()
    call(db, "claim", worker_id=worker, want=1, lease="1 minute")
    for fence in (
        {"id": uuid4(), "epoch": 1, "worker_id": worker},
        {"id": id, "epoch": 0, "worker_id": worker},
        {"id": id, "epoch": 2**62, "worker_id": worker},
        {"id": id, "epoch": -1, "worker_id": worker},
        {"id": id, "epoch": 1, "worker_id": uuid4()},
    ):
        with pytest.raises(psycopg.Error) as refused:
            call(db, "complete", **fence)
        assert refused.value.sqlstate == "WF001"
    assert scalar(db, "select state from wakeful.jobs where id = %s", id) == "running"
