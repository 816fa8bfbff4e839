"""The statement behind enqueuing: what goes in comes out of the table unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sessions import Session, empty, session
from tests.verbs import job
from wakeful.database.fetch import fetch
from wakeful.statements.enqueue import enqueue
from wakeful.testing import Database
from wakeful.values.identity import new_id
from wakeful.values.job import NewJob


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


def test_none_at_all_makes_none(db: Session) -> None:
    assert fetch(db, enqueue([])) == []


def test_one_job_has_the_databases_defaults(db: Session) -> None:
    [id] = fetch(db, enqueue([NewJob(new_id(), "t", "{}")]))
    assert id is not None
    found = job(db, id)
    assert (found["queue"], found["priority"], found["max_attempts"]) == ("default", 0, 5)
    assert (found["metadata"], found["tenant"], found["payload"]) == (None, None, {})


def test_equal_payloads_make_as_many_jobs(db: Session) -> None:
    ids = fetch(db, enqueue([NewJob(new_id(), "t", "{}") for _ in range(3)], fresh=True))
    assert len(set(ids)) == 3
    assert [job(db, id)["payload"] for id in ids if id] == [{}, {}, {}]


def test_jobs_of_one_call_may_differ_in_everything(db: Session) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    asked = [
        NewJob(new_id(), "a", "{}", "q", 5, at, None, 1, "k", "skip", "x", uuid4(), uuid4(), "me", "{}", at),
        NewJob(new_id(), "b", '{"n": 1}', None, None, None, timedelta(days=1)),
        NewJob(new_id(), "c", "{}", default_off=True),
        NewJob(new_id(), "a", "{}", "other", dedup_key="k"),
    ]
    ids = fetch(db, enqueue(asked))
    assert [id and id.action for id in ids] == ["inserted", "inserted", None, "skipped"]
    assert ids[3] == ids[0]
    assert ids[0] is not None
    first = job(db, ids[0])
    assert (first["queue"], first["priority"], first["run_at"], first["expires_at"]) == ("q", 5, at, at)
    assert (first["correlation_id"], first["parent_id"]) == (asked[0].correlation_id, asked[0].parent_id)
    assert ids[1] is not None
    second = job(db, ids[1])
    assert second["run_at"] - second["created_at"] == timedelta(days=1)
    assert (second["queue"], second["tenant"], second["correlation_id"]) == ("default", None, ids[1])


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
payloads = st.dictionaries(texts, values, max_size=4)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(payloads, st.none() | texts.filter(bool)), min_size=1, max_size=5))
def test_any_text_and_payload_arrives_unchanged(db: Session, asked: list[tuple[dict[str, object], str | None]]) -> None:
    empty(db)
    jobs = [
        NewJob(new_id(), f"t{place}", json.dumps(payload), dedup_key=key, metadata=json.dumps({"k": key}))
        for place, (payload, key) in enumerate(asked)
    ]
    ids = fetch(db, enqueue(jobs, fresh=True))
    found = [job(db, id) for id in ids if id is not None]
    assert [(one["payload"], one["dedup_key"]) for one in found] == asked
    assert [one["metadata"]["k"] for one in found] == [key for _, key in asked]
