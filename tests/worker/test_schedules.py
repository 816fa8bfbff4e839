"""Schedules on a running worker: each slot starts its job at its moment, once, with nobody polling."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.sessions import Session, call, query, scalar, session, shift_clock
from tests.worker.work import LONG_POLL, at_rest, counts, soon, starting, working
from wakeful.app import Wakeful
from wakeful.testing import Database
from wakeful.values.errors import InvalidOption, PayloadError, Refused


def jobs(db: Session, schedule: str = "tick") -> list[dict[str, Any]]:
    """The jobs of a schedule that have run, by their slots."""
    return query(
        db,
        "select run_at, started_at, metadata from wakeful.jobs where metadata ->> 'schedule' = %s"
        " and state = 'completed' order by run_at",
        schedule,
    )


@pytest.fixture
def tick(app: Wakeful) -> None:
    @app.schedule(every=1, name="tick")
    @app.task(name="tick")
    async def tick() -> None: ...


@pytest.mark.usefixtures("tick")
async def test_a_slots_job_starts_at_its_moment_and_never_early(app: Wakeful, db: Session) -> None:
    async with starting(app):
        await soon(lambda: len(jobs(db)) >= 4)
    late = [job["started_at"] - job["run_at"] for job in jobs(db)]
    assert min(late) >= timedelta(0)
    # A busy machine may hold up one or the other.
    assert sorted(late)[1] < timedelta(milliseconds=200)
    slots = [job["run_at"] for job in jobs(db)]
    assert {second - first for first, second in pairwise(slots)} == {timedelta(seconds=1)}


async def test_an_idle_worker_sends_nothing_more_for_its_schedules(app: Wakeful, db: Session) -> None:
    @app.schedule("0 3 * * *", tz="Europe/Helsinki", name="nightly")
    @app.task(name="nightly")
    async def nightly() -> None: ...

    async with working(app) as worker:
        [planned] = await app.schedules.alist()
        assert planned.next_at is not None
        before, said = statements_sent(db), counts(worker)
        await at_rest(worker, 2)
        assert counts(worker) == said
        assert statements_sent(db) == before


def statements_sent(db: Session) -> list[Any]:
    """When each other session of the database last said something, but for the one that beats."""
    return query(
        db,
        "select pid, query_start from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and application_name <> 'wakeful beat' order by pid",
    )


@pytest.mark.usefixtures("tick")
async def test_several_workers_make_one_job_a_slot(app: Wakeful, database: Database, db: Session) -> None:
    async with starting(app), starting(app), starting(app):
        await soon(lambda: len(jobs(db)) >= 5)
    slots = [job["run_at"] for job in jobs(db)]
    assert len(slots) == len(set(slots))
    assert scalar(db, "select count(*) = count(distinct run_at) from wakeful.jobs")


@pytest.mark.usefixtures("tick")
async def test_a_restart_neither_forgets_nor_repeats_a_slot(app: Wakeful, db: Session) -> None:
    for _ in range(3):
        count = len(jobs(db))
        async with starting(app):
            await soon(lambda seen=count: len(jobs(db)) > seen)  # type: ignore[misc]
    slots = [job["run_at"] for job in jobs(db)]
    assert len(slots) == len(set(slots))


@pytest.mark.parametrize(("misfire", "made"), [("latest", 1), ("skip", 0), ("all", 3)])
async def test_slots_that_passed_while_nobody_ran(app: Wakeful, db: Session, misfire: Any, made: int) -> None:
    @app.schedule(every="1h", name="hourly", misfire=misfire, cap=3)
    @app.task(name="hourly")
    async def hourly() -> None: ...

    assert (await app.worker().arun_once()).processed == 0
    shift_clock(db, "5 hours 30 minutes")
    assert (await app.worker().arun_once()).processed == made
    assert (await app.worker().arun_once()).processed == 0
    [planned] = await app.schedules.alist()
    assert planned.next_at is not None
    assert planned.next_at - planned.created_at == timedelta(hours=6)


async def test_one_made_at_run_time_wakes_the_workers(app: Wakeful, db: Session) -> None:
    @app.task(name="t")
    async def t(n: int) -> None: ...

    async with working(app) as worker:
        await app.schedules.aadd("soon", t, every=1, payload={"n": 1}, misfire="all", priority=3)
        await soon(lambda: len(jobs(db, "soon")) >= 2)
        assert await app.schedules.apause("soon", reason="enough") is True
        await at_rest(worker)
        count = len(jobs(db, "soon"))
        await at_rest(worker, 1.3)
        assert len(jobs(db, "soon")) == count
        await app.schedules.aremove("soon")
        assert await app.schedules.alist() == []


async def test_a_schedule_under_load_is_not_forgotten(app: Wakeful, db: Session) -> None:
    """A worker that is never short of jobs sees it when it tends."""

    @app.schedule(every=1, name="tick")
    @app.task(name="tick", priority=50)
    async def tick() -> None: ...

    @app.task(name="load")
    async def load() -> None:
        await app.tasks["load"].aenqueue()

    await app.tasks["load"].aenqueue_many([{}] * 50)
    async with starting(app, concurrency=2):
        await soon(lambda: len(jobs(db)) >= 3)


async def test_both_edges_of_daylight_saving_time(app: Wakeful, db: Session) -> None:
    """As a worker lives through them: by the database's clock, which goes on by an hour at a time."""

    @app.schedule("30 3 * * *", tz="Europe/Helsinki", name="night")
    @app.task(name="night")
    async def night() -> None: ...

    expected = []
    for eve, wanted in (
        ("2027-03-27 12:00+00", "2027-03-28T01:00+00:00"),
        ("2027-10-30 12:00+00", "2027-10-31T00:30+00:00"),
    ):
        shift_clock(db, str(scalar(db, "select %s::timestamptz - wakeful.now()", eve)))
        db.execute("update wakeful.schedule set since = wakeful.now(), next_at = '-infinity'")
        await app.worker().arun_once()
        for _ in range(26):
            shift_clock(db, "1 hour")
            await app.worker().arun_once()
        expected.append(datetime.fromisoformat(wanted))
    assert [job["run_at"] for job in jobs(db, "night")] == expected


async def test_a_nickname_that_someone_wrote_in_sql_is_read(app: Wakeful, db: Session) -> None:
    app.task(name="report")(nothing)
    call(db, "add_schedule", name="hourly", task="report", cron=" @Hourly ", misfire="all")
    assert (await app.worker().arun_once()).processed == 0
    shift_clock(db, "2 hours")
    assert (await app.worker().arun_once()).succeeded == 2
    [planned] = await app.schedules.alist()
    assert planned.next_at is not None
    assert (planned.next_at.minute, planned.next_at.second) == (0, 0)


async def test_a_line_that_someone_wrote_wrong_in_sql_is_told_once_and_holds_up_nothing(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    @app.schedule(every=1, name="tick")
    @app.task(name="tick")
    async def tick() -> None: ...

    call(db, "add_schedule", name="wrong", task="tick", cron="61 * * * *")
    call(db, "add_schedule", name="elsewhere", task="tick", cron="* * * * *", tz="Mars/Phobos")
    with caplog.at_level(logging.ERROR):
        async with starting(app):
            await soon(lambda: len(jobs(db)) >= 3)
    told = [record.message for record in caplog.records if "schedule_unreadable" in record.message]
    assert sorted(message.split(":")[1].strip() for message in told) == ["elsewhere", "wrong"]
    assert any("'61' in column 1 is no minute" in message for message in told), told
    assert any("'Mars/Phobos', which no time zone here is called" in message for message in told), told


async def test_a_hundred_that_nobody_can_read_do_not_hide_one_that_is_due(app: Wakeful, db: Session) -> None:
    @app.task(name="tick")
    async def tick() -> None: ...

    for n in range(120):
        call(db, "add_schedule", name=f"wrong {n}", task="tick", cron="* * * * *", tz="Mars/Phobos")
    call(db, "add_schedule", name="zzz", task="tick", every="1 second")
    async with starting(app):
        await soon(lambda: len(jobs(db, "zzz")) >= 1)


async def test_an_older_deploy_says_that_it_changes_nothing(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    def deploy(line: str) -> Wakeful:
        made = Wakeful(app.settings.database.dsn)
        made.schedule(line, name="report")(made.task(name="report")(nothing))
        return made

    async with deploy("0 7 * * *") as old, deploy("0 8 * * *") as new:
        for one in (old, new, old):
            await one.worker().arun_once()
    assert scalar(db, "select cron from wakeful.schedule") == "0 8 * * *"
    assert "schedule_kept: report is kept as it is" in caplog.text


def nothing() -> None: ...


async def test_one_that_code_does_not_declare_any_more_is_not_fired(app: Wakeful, db: Session) -> None:
    app.task(name="report")(nothing)
    async with Wakeful(app.settings.database.dsn) as old:
        old.schedule(every=1, name="report")(old.task(name="report")(nothing))
        await old.worker().arun_once()
    shift_clock(db, "1 hour")
    assert (await app.worker().arun_once()).processed == 0
    [left] = await app.schedules.alist()
    assert left.declared is False


async def test_a_wrong_change_is_refused_before_it_is_sent(app: Wakeful) -> None:
    @app.task(name="t")
    async def t(n: int) -> None: ...

    with pytest.raises(PayloadError, match="is missing"):
        await app.schedules.aadd("s", "t", "@daily")
    await app.schedules.aadd("s", "t", "@daily", payload={"n": 1})
    for wrong in ({"cron": "61 * * * *"}, {"tz": "Mars"}, {"every": 0}, {"priorty": 1}, {"cron": "@daily", "every": 9}):
        with pytest.raises(InvalidOption):
            await app.schedules.achange("s", **wrong)
    with pytest.raises(PayloadError):
        await app.schedules.achange("s", payload={"m": 2})
    with pytest.raises(Refused, match="There is no schedule"):
        await app.schedules.achange("other", cap=2)
    await app.schedules.achange("s", every="2h", payload={"n": 2}, priority=7, queue="slow")
    [found] = await app.schedules.alist()
    assert (found.cron, found.every, found.payload) == (None, timedelta(hours=2), {"n": 2})
    assert (found.queue, found.options["priority"], found.misfire) == ("slow", 7, "latest")


async def test_tags_and_the_other_metadata_are_changed_apart(app: Wakeful) -> None:
    async def after(**changes: Any) -> object:
        await app.schedules.achange("s", **changes)
        [found] = await app.schedules.alist()
        return found.options["metadata"]

    app.task(name="t")(nothing)
    await app.schedules.aadd("s", "t", "@daily", metadata={"x": 1}, tags=["a"])
    assert await after(tags=["b", "c"]) == {"x": 1, "tags": ["b", "c"]}
    assert await after(metadata={"y": 2}) == {"y": 2, "tags": ["b", "c"]}
    assert await after(priority=3) == {"y": 2, "tags": ["b", "c"]}
    assert await after(metadata={"z": 3}, tags=["d"]) == {"z": 3, "tags": ["d"]}


def test_every_verb_has_a_sync_form(database: Database, db: Session) -> None:
    with Wakeful(database.dsn) as app:

        @app.task(name="t")
        def t() -> None: ...

        app.schedules.add("s", "t", "@hourly")
        app.schedules.change("s", cron="@weekly", actor="ann")
        assert app.schedules.pause("s") is True
        assert app.schedules.resume("s") is True
        id = app.schedules.run_now("s")
        assert id is not None
        [found] = app.schedules.list()
        assert (found.cron, found.last_job_id, found.source) == ("0 0 * * 0", id, "runtime")
        assert found.next_at is not None
        app.schedules.remove("s")
        assert app.schedules.list() == []
        assert app.worker().run_once().succeeded == 1


@pytest.mark.usefixtures("tick")
async def test_a_schedule_that_someone_has_locked_is_tried_again(app: Wakeful, database: Database, db: Session) -> None:
    """And holds the worker up for a moment only."""
    with session(database.dsn) as holder:

        def waits() -> bool:
            blocked = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            return bool(query(db, blocked))

        async with working(app):
            with holder.transaction():
                holder.execute("select from wakeful.schedule for update")
                for _ in range(2):
                    await soon(waits)
                    await soon(lambda: not waits())
            count = len(jobs(db))
            await soon(lambda: len(jobs(db)) > count, LONG_POLL / 4)
