"""Jobs that are alike, enqueued one by one: what is written once stands where the statement wants it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.sessions import Session, session
from tests.verbs import job
from wakeful.database.fetch import fetch
from wakeful.database.quick import QuickConnection
from wakeful.produce.options import NO_OPTIONS
from wakeful.produce.template import Defaults, Template, template
from wakeful.statements.enqueue import Alike, enqueue
from wakeful.statements.written import Written
from wakeful.testing import Database
from wakeful.values.identity import new_id
from wakeful.values.job import JobId, NewJob

AT = datetime(2030, 1, 1, tzinfo=UTC)
OWN = {"id", "created_at", "updated_at", "correlation_id", "parent_id"}


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


def everything(id: UUID, payload: str = "{}", origin: tuple[UUID | None, UUID | None] = (None, None)) -> NewJob:
    said = ("q", 5, AT, None, 7, "k", "skip", "x")
    return NewJob(id, "t", payload, *said, *origin, "me", '{"a": 1}', AT, False)


def alike(like: NewJob) -> Alike:
    found = Alike.of(like)
    assert found is not None
    return found


def made(db: Session, ids: list[JobId | None]) -> dict[str, object]:
    [id] = ids
    assert id is not None
    assert id.action == "inserted"
    return job(db, id)


@pytest.mark.parametrize("kind", [psycopg.Connection, QuickConnection], ids=["cursor", "short way"])
def test_it_makes_the_job_that_enqueue_makes(
    database: Database, db: Session, kind: type[psycopg.Connection[tuple[object, ...]]]
) -> None:
    origin = (uuid4(), uuid4())
    with kind.connect(database.dsn, autocommit=True) as conn:
        plain = made(db, fetch(conn, enqueue([everything(new_id(), '{"n": "ü"}', origin)], fresh=True)))
        db.execute("update wakeful.job set dedup_key = null where id = %s", [plain["id"]])
        short = made(db, fetch(conn, alike(everything(uuid4())).enqueue(new_id(), '{"n": "ü"}', *origin)))
    differ = {name for name in plain if plain[name] != short[name]} - OWN
    assert differ <= {"dedup_key", "seq"}
    assert (short["correlation_id"], short["parent_id"], short["dedup_key"]) == (*origin, "k")


def test_the_next_one_has_nothing_of_the_last(db: Session) -> None:
    jobs = alike(NewJob(uuid4(), "t", "{}"))
    first, second = new_id(), new_id()
    made(db, fetch(db, jobs.enqueue(first, '{"n": 1}', uuid4(), first)))
    found = made(db, fetch(db, jobs.enqueue(second, '{"n": 2}', None, None)))
    assert (found["id"], found["payload"], found["parent_id"]) == (second, {"n": 2}, None)


@pytest.mark.parametrize("text", ["zero\0byte", "lone \ud800 surrogate"])
def test_what_only_a_cursor_can_refuse_has_no_short_way(text: str) -> None:
    assert Alike.of(NewJob(uuid4(), text, "{}")) is None


def test_to_a_driver_it_is_a_mapping_of_names_to_texts() -> None:
    params = Written(("a", "b"), [b"\xc3\xbc", None])
    assert dict(params) == {"a": "ü", "b": None}
    assert len(params) == 2
    with pytest.raises(KeyError):
        params["c"]


def a_template(**options: object) -> Template:
    return template(Defaults("t", "q", 1, 3), NO_OPTIONS.updated(None, options))  # type: ignore[arg-type]


def test_a_template_writes_what_its_jobs_carry(db: Session) -> None:
    carrying = a_template(metadata={"a": 1}, tenant="x").carrying({"traceparent": "00-1"})
    statement = carrying.alone(new_id(), '{"n": 1}')
    assert statement is not None
    found = made(db, fetch(db, statement))
    assert found["metadata"] == {"a": 1, "traceparent": "00-1"}
    assert (found["queue"], found["priority"], found["max_attempts"], found["tenant"]) == ("q", 1, 3, "x")


def test_a_job_whose_id_was_given_may_have_been_sent_before() -> None:
    given = new_id()
    assert a_template(id=given).alone(given, "{}") is None
