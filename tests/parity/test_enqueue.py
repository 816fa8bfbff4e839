"""Enqueuing says and does the same, blocking or awaited."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

from tests.parity.conftest import Form
from tests.poison import refuse_poison
from tests.sessions import Ear, Session, query, scalar, session
from tests.verbs import claim_one, complete, fail, fall_asleep, job
from wakeful import Context, DuplicateJob, InvalidOption, JobId, PayloadError, Wakeful
from wakeful.testing import Database
from wakeful.values.current import current_job


@dataclass
class Order:
    number: int
    placed_at: datetime


async def test_a_call_becomes_a_job_with_what_the_task_says(app: Wakeful, form: Form, db: Session) -> None:
    @app.task(name="shop.ship", queue="warehouse", priority=7, max_attempts=3)
    def ship(order: Order, express: bool = False) -> None: ...

    placed = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    id = await form(ship).enqueue(Order(17, placed), express=True)
    assert isinstance(id, JobId)
    assert id.action == "inserted"
    found = job(db, id)
    assert found["task"] == "shop.ship"
    assert found["payload"] == {
        "order": {"number": 17, "placed_at": "2026-01-02T03:04:00Z"},
        "express": True,
    }
    assert (found["queue"], found["priority"], found["max_attempts"]) == ("warehouse", 7, 3)
    assert (found["state"], found["correlation_id"], found["parent_id"]) == ("ready", id, None)


async def test_every_option_reaches_the_job(app: Wakeful, form: Form, db: Session) -> None:
    @app.task
    def ship(number: int) -> None: ...

    run_at, expires_at = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) + timedelta(days=1)
    id, correlation, parent = uuid4(), uuid4(), uuid4()
    configured = ship.using(
        queue="q",
        priority=-100,
        run_at=run_at,
        max_retries=8,
        dedup_key="k'\"\\{},",
        dedup="raise",
        tenant="t,\"'{}\\",
        correlation_id=str(correlation),
        parent_id=parent,
        created_by="ändi",
        expires_at=expires_at,
        id=id,
        idempotency_key="once",
        metadata={"source": 'a "web" form'},
        tags=["urgent", "x,y"],
    )
    assert await form(configured).enqueue(1) == id
    found = job(db, id)
    assert found["state"] == "scheduled"
    assert (found["queue"], found["priority"], found["run_at"]) == ("q", -100, run_at)
    assert (found["max_attempts"], found["dedup_key"]) == (9, "k'\"\\{},")
    assert (found["tenant"], found["created_by"]) == ("t,\"'{}\\", "ändi")
    assert (found["correlation_id"], found["parent_id"]) == (correlation, parent)
    assert found["expires_at"] == expires_at
    assert found["metadata"] == {
        "source": 'a "web" form',
        "tags": ["urgent", "x,y"],
        "idempotency_key": "once",
    }


async def test_a_delay_counts_from_the_databases_clock(app: Wakeful, form: Form, db: Session) -> None:
    id = await form(app).enqueue("t", delay=timedelta(days=200, microseconds=3))
    found = job(db, id)
    assert found["run_at"] - found["created_at"] == timedelta(days=200, microseconds=3)


async def test_a_task_that_is_not_imported_is_enqueued_by_name(app: Wakeful, form: Form, db: Session) -> None:
    id = await form(app).enqueue("elsewhere.send", {"to": "a@b.c", "parts": [1, 2.5, None]}, queue="mail")
    found = job(db, id)
    assert (found["task"], found["queue"], found["max_attempts"]) == ("elsewhere.send", "mail", 5)
    assert found["payload"] == {"to": "a@b.c", "parts": [1, 2.5, None]}


async def test_a_known_task_is_enqueued_by_name_as_by_its_function(app: Wakeful, form: Form, db: Session) -> None:
    @app.task(name="t", queue="own", max_attempts=2)
    def known(number: int) -> None: ...

    found = job(db, await form(app).enqueue("t", {"number": 3}, priority=5))
    assert (found["queue"], found["max_attempts"], found["priority"]) == ("own", 2, 5)
    with pytest.raises(PayloadError, match="`number` is missing"):
        await form(app).enqueue("t", {"nmber": 3})


async def test_what_cannot_be_stored_is_refused_before_anything_is_sent(form: Form) -> None:
    app = Wakeful("postgresql://nobody@127.0.0.1:1/nowhere")

    @app.task
    def note(text: str, value: Any = None) -> None: ...

    refused: list[tuple[dict[str, Any], str]] = [
        ({"text": "a\x00b"}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"text": "x", "value": float("nan")}, "value"),
        ({"text": "x", "value": datetime(2026, 1, 1)}, "value"),
        ({"text": "x", "value": {"deep": object()}}, "value.deep"),
        ({"text": 5}, "text"),
        ({}, "text"),
    ]
    for arguments, field in refused:
        with pytest.raises(PayloadError) as caught:
            await form(note).enqueue(**arguments)
        assert caught.value.field == field
        with pytest.raises(PayloadError) as caught:
            await form(note).enqueue_many([{"text": "fine"}, arguments])
        assert caught.value.field == f"[1].{field}"
    with pytest.raises(PayloadError, match="list"):
        await form(app).enqueue("elsewhere", [1, 2])


async def test_a_payload_over_the_limit_is_refused(database: Database, form: Form) -> None:
    async with Wakeful(database.dsn, payload_limit=100) as app:
        with pytest.raises(PayloadError, match="over the limit of 100"):
            await form(app).enqueue("t", {"text": "x" * 100})


async def test_the_contexts_parameter_is_not_enqueued(app: Wakeful, form: Form, db: Session) -> None:
    @app.task
    async def sized(ctx: Context, number: int) -> None: ...

    assert job(db, await form(sized).enqueue(4))["payload"] == {"number": 4}
    with pytest.raises(PayloadError, match="filled in by the worker"):
        await form(sized).enqueue(number=4, ctx=None)


async def test_a_live_twin_is_joined_as_asked(app: Wakeful, form: Form, db: Session) -> None:
    @app.task(name="t")
    def send(number: int) -> None: ...

    keyed = send.using(dedup_key="k")
    first = await form(keyed).enqueue(1)
    skipped = await form(keyed).enqueue(2)
    assert (skipped, skipped.action) == (first, "skipped")
    replaced = await form(keyed.using(dedup="replace")).enqueue(3)
    assert (replaced, replaced.action) == (first, "replaced")
    assert job(db, first)["payload"] == {"number": 3}
    with pytest.raises(DuplicateJob) as caught:
        await form(keyed.using(dedup="raise")).enqueue(4)
    assert caught.value.existing_id == first
    debounced = await form(keyed.using(dedup="debounce", delay=60)).enqueue(5)
    assert (debounced, debounced.action, job(db, first)["state"]) == (first, "debounced", "scheduled")
    assert scalar(db, "select count(*) from wakeful.job") == 1


async def test_a_running_twin_is_run_again_when_asked(app: Wakeful, form: Form, db: Session) -> None:
    first = await form(app).enqueue("t", {"number": 1}, dedup_key="k")
    held = claim_one(db)
    again = await form(app).enqueue("t", {"number": 2}, dedup_key="k", dedup="rerun")
    assert again.action == "rerun"
    assert again != first
    complete(db, held)
    assert job(db, again)["payload"] == {"number": 2}


@pytest.mark.parametrize("ending", ["live", "completed", "dead"])
async def test_the_same_id_makes_one_job_also_when_that_is_over(
    app: Wakeful, form: Form, db: Session, ending: str
) -> None:
    id = uuid4()
    first = await form(app).enqueue("t", id=id, max_attempts=1)
    assert (first, first.action) == (id, "inserted")
    if ending == "completed":
        complete(db, claim_one(db))
    elif ending == "dead":
        fail(db, claim_one(db))
    again = await form(app).enqueue("t", id=id)
    assert (again, again.action) == (id, "resent")
    assert len(query(db, "select from wakeful.jobs")) == 1


async def test_many_are_enqueued_in_order(app: Wakeful, form: Form, db: Session) -> None:
    @app.task
    def count(number: int) -> None: ...

    ids = await form(count).enqueue_many({"number": number} for number in range(12_345))
    assert len(ids) == len(set(ids)) == 12_345
    assert ids == sorted(ids)
    numbers = query(db, "select (payload ->> 'number')::int as number from wakeful.job order by id")
    assert [row["number"] for row in numbers] == list(range(12_345))
    assert {id.action for id in ids} == {"inserted"}
    assert await form(count).enqueue_many([]) == []


async def test_many_are_enqueued_all_or_none(app: Wakeful, form: Form, db: Session) -> None:
    refuse_poison(db)
    calls = [{"number": number} for number in range(6000)] + [{"poison": True}]
    with pytest.raises(Exception, match="poison"):
        await form(app.task(name="t")(anything)).enqueue_many(calls)
    assert scalar(db, "select count(*) from wakeful.job") == 0


async def test_many_share_their_options_but_never_an_id(app: Wakeful, form: Form, db: Session) -> None:
    task = app.task(name="t")(anything)
    ids = await form(task.using(tenant="a", delay=60)).enqueue_many([{"n": 1}, {"n": 2}])
    assert [job(db, id)["tenant"] for id in ids] == ["a", "a"]
    with pytest.raises(InvalidOption, match="id names one job"):
        await form(task.using(id=uuid4())).enqueue_many([{}, {}])


async def test_of_many_with_one_dedup_key_the_first_is_made(app: Wakeful, form: Form, db: Session) -> None:
    task = app.task(name="t")(anything).using(dedup_key="k")
    ids = await form(task).enqueue_many([{"n": 1}, {"n": 2}, {"n": 3}])
    assert [id.action for id in ids] == ["inserted", "skipped", "skipped"]
    assert len(set(ids)) == 1
    assert job(db, ids[0])["payload"] == {"n": 1}


async def test_a_task_that_the_environment_switches_off_is_not_enqueued(
    database: Database, form: Form, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WAKEFUL_ENQUEUE_OFF", "other, t")
    async with Wakeful(database.dsn) as app:
        with caplog.at_level(logging.INFO, "wakeful"):
            assert await form(app).enqueue("t") is None
        assert told(caplog, "enqueue_off") == [("t", "WAKEFUL_ENQUEUE_OFF")]
        assert await form(app.task(name="t")(anything)).enqueue_many([{}, {}]) == [None, None]
        assert await form(app).enqueue("u") is not None


async def test_a_switch_in_the_database_acts_at_once(
    app: Wakeful, form: Form, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    task = app.task(name="t")(anything)
    assert await form(task).enqueue() is not None
    db.execute("select wakeful.switch_task('t', false)")
    with caplog.at_level(logging.INFO, "wakeful"):
        assert await form(task).enqueue() is None
    assert told(caplog, "enqueue_off") == [("t", "switched off in the database")]
    assert await form(task).enqueue_many([{}, {}]) == [None, None]
    assert await form(app).enqueue("u") is not None
    db.execute("select wakeful.switch_task('t', true)")
    assert await form(task).enqueue() is not None


async def test_a_task_that_defaults_to_off_waits_for_its_switch(app: Wakeful, form: Form, db: Session) -> None:
    task = app.task(name="t", enabled=False)(anything)
    assert await form(task).enqueue() is None
    db.execute("select wakeful.switch_task('t', true)")
    assert await form(task).enqueue() is not None


class Running(NamedTuple):
    id: UUID
    correlation_id: UUID
    epoch: int = 1


async def test_a_job_of_a_handler_is_a_child_of_its_job(app: Wakeful, form: Form, db: Session) -> None:
    running = Running(uuid4(), uuid4())
    token = current_job.set(running)
    try:
        child = job(db, await form(app).enqueue("t"))
        [many] = await form(app.task(name="m")(anything)).enqueue_many([{}])
        other = uuid4()
        own = job(db, await form(app).enqueue("t", correlation_id=other, parent_id=other))
    finally:
        current_job.reset(token)
    assert (child["parent_id"], child["correlation_id"]) == (running.id, running.correlation_id)
    assert job(db, many)["parent_id"] == running.id
    assert (own["parent_id"], own["correlation_id"]) == (other, other)


async def test_sleeping_workers_are_poked_unless_told_otherwise(
    app: Wakeful, form: Form, database: Database, db: Session
) -> None:
    task = app.task(name="t")(anything)
    with session(database.dsn) as listening:
        worker = fall_asleep(db)
        ear = Ear(listening, worker)
        await form(app).enqueue("t")
        assert [hint["q"] for hint in ear.heard(db)] == ["default"]
        await form(app).enqueue("t", poke=False)
        await form(task.using(poke=False)).enqueue_many([{}, {}])
        assert ear.heard(db) == []
        async with Wakeful(database.dsn, notify=False) as quiet:
            await form(quiet).enqueue("t")
        assert ear.heard(db) == []


def anything(**arguments: Any) -> None: ...


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[tuple[str, str]]:
    """Task and reason of such log lines, the reason cut to the part that tests name."""
    lines = [record.__dict__ for record in caplog.records if record.__dict__.get("event") == event]
    known = ("WAKEFUL_ENQUEUE_OFF", "switched off in the database")
    return [(line["task"], next(part for part in known if part in line["reason"])) for line in lines]
