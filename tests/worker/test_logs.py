"""What a worker logs of its jobs, and what their handlers' own lines carry."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from io import StringIO
from itertools import product
from typing import Any

import pytest

from tests.sessions import Session, query
from wakeful.app import Wakeful
from wakeful.edges.logs import JsonHandler, JsonLines
from wakeful.observe.observer import Observer
from wakeful.run.context import Context, SyncContext
from wakeful.values.errors import InvalidOption
from wakeful.values.outcome import Cancel, Dead, Snooze
from wakeful.values.retry import Fixed
from wakeful.values.run import Run


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if getattr(record, "event", None) == name]


async def test_a_completed_job_is_told_of_with_all_its_fields(app: Wakeful, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    @app.task(name="enrich", log_fields=("item_id",))
    async def enrich(item_id: str, secret: str) -> None: ...

    id = await enrich.using(tenant="acme").aenqueue("i-7", "s")
    await app.worker().arun_once()
    [claimed] = events(caplog, "job_claimed")
    [told] = events(caplog, "job_completed")
    assert id is not None
    for line in (claimed, told):
        assert (line["job_id"], line["task"], line["queue"], line["attempt"]) == (str(id), "enrich", "default", 1)
        assert (line["correlation_id"], line["tenant"]) == (str(id), "acme")
        assert line["worker_id"]
        assert line["item_id"] == "i-7"
        assert "secret" not in line
    assert 0 <= told["duration_ms"] < 10_000
    assert 0 <= told["queue_time_ms"] < 60_000
    [batch] = events(caplog, "batch_completed")
    assert (batch["processed"], batch["succeeded"], batch["failed"]) == (1, 1, 0)


async def test_each_other_outcome_has_an_event_of_its_own(app: Wakeful, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    @app.task(name="fails", retry=Fixed(60))
    async def fails(how: str) -> object:
        match how:
            case "snooze":
                return Snooze(60)
            case "cancel":
                return Cancel("not wanted")
            case "dead":
                raise Dead("for good")
        raise ValueError("no luck")

    for how in ("retry", "dead", "snooze", "cancel"):
        await fails.aenqueue(how)
    await app.worker().arun_once()
    assert [line["levelname"] for line in events(caplog, "job_dead")] == ["ERROR"]
    failed = {line["error"]: line for line in events(caplog, "job_failed")}
    again, final = failed["no luck"], failed["for good"]
    assert (again["error_code"], again["will_retry"], again["levelname"]) == ("ValueError", True, "WARNING")
    assert 50_000 < again["retry_in_ms"] < 70_000
    assert (final["error_code"], final["will_retry"]) == ("Dead", False)
    assert len(events(caplog, "job_snoozed")) == len(events(caplog, "job_cancelled")) == 1
    [batch] = events(caplog, "batch_completed")
    assert batch["counts"] == {"failed": 1, "dead": 1, "snoozed": 1, "cancelled": 1}


async def test_a_handlers_own_lines_carry_the_job(app: Wakeful, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    @app.task(name="here", log_fields=["item_id"])
    async def here(ctx: Context, item_id: int) -> None:
        logging.getLogger("shop").info("on the loop")
        logging.getLogger("shop").info("told by itself", extra={"task": "mine"})
        ctx.logger.info("by the context")

    @app.task(name="there")
    def there(ctx: SyncContext) -> None:
        logging.getLogger("shop").info("in a thread")

    on_loop, in_thread = await here.aenqueue(item_id=3), await there.aenqueue()
    await app.worker().arun_once()
    logging.getLogger("shop").info("outside")
    lines = {record.getMessage(): vars(record) for record in caplog.records}
    for message in ("on the loop", "told by itself", "by the context"):
        assert (lines[message]["job_id"], lines[message]["item_id"]) == (str(on_loop), 3)
        assert lines[message]["correlation_id"] == str(on_loop)
    assert (lines["on the loop"]["task"], lines["told by itself"]["task"]) == ("here", "mine")
    assert (lines["in a thread"]["job_id"], lines["in a thread"]["attempt"]) == (str(in_thread), 1)
    assert "job_id" not in lines["outside"]


async def test_counters_are_added_up_over_the_run(app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    @app.task(name="refresh")
    async def refresh(ctx: Context, ids: list[int]) -> None:
        ctx.count("requested", len(ids))
        ctx.count("processed", len(set(ids)))
        ctx.count("upserted")
        ctx.count("upserted", 2)

    for ids in ([1, 2, 2], [3]):
        await refresh.aenqueue(ids)
    worker = app.worker()
    await worker.arun_once()
    [batch] = events(caplog, "batch_completed")
    assert batch["counters"] == {"requested": 4, "processed": 3, "upserted": 6}
    summary = worker.get_metrics_summary()
    assert (summary["total_jobs"], summary["successful_jobs"], summary["success_rate"]) == (2, 2, 1.0)
    assert (summary["total_entities_requested"], summary["total_entities_upserted"]) == (4, 6)
    assert summary["total_entities_found"] == summary["total_errors"] == summary["failed_jobs"] == 0
    assert 0 < summary["average_duration"] < 10
    kept = query(db, "select counters from wakeful.jobs")
    assert sum(row["counters"]["requested"] for row in kept) == 4


async def test_sets_of_lines_are_written_as_records_would_be(app: Wakeful) -> None:
    """Where the only handler is ours, no records are made: the lines must not differ."""

    @app.task(name="quick")
    async def quick(n: int) -> None: ...

    @app.task(name="shown", log_fields=("item_id",))
    async def shown(item_id: str, secret: str) -> None: ...

    def run_on(handler: logging.Handler) -> logging.Logger:
        root = logging.getLogger()
        handler.setFormatter(JsonLines())
        root.handlers[:] = [handler]
        root.setLevel(logging.INFO)
        return root

    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    told: list[list[dict[str, Any]]] = []
    try:
        for make in (JsonHandler, logging.StreamHandler):
            stream = StringIO()
            run_on(make(stream))
            await quick.using(tenant="t").aenqueue(1)
            await shown.aenqueue("i-7", 'a "secret"')
            await app.worker().arun_once()
            told.append([json.loads(line) for line in stream.getvalue().splitlines()])
    finally:
        root.handlers[:], root.level = before, level
        root.setLevel(level)
    for name, task in product(("job_claimed", "job_completed"), ("quick", "shown")):
        [fast], [slow] = ([one for one in lines if (one["event"], one.get("task")) == (name, task)] for lines in told)
        assert fast.keys() == slow.keys()
        assert {key: type(value) for key, value in fast.items()} == {key: type(value) for key, value in slow.items()}
        for key in ("level", "logger", "pid", "task", "queue", "attempt", "tenant", "item_id"):
            assert fast.get(key) == slow.get(key)
        assert fast.get("item_id") == {"quick": None, "shown": "i-7"}[task]
        assert "secret" not in fast


async def test_an_observer_that_breaks_ends_nothing(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Observer):
        def ended(self, runs: Sequence[Run]) -> None:
            raise RuntimeError("oh")

        def around(self, jobs: Sequence[Any]) -> Any:
            raise RuntimeError("oh")

    @app.task(name="fine")
    async def fine() -> None: ...

    app.observe(Broken())
    await fine.aenqueue()
    assert (await app.worker().arun_once()).succeeded == 1
    assert [row["state"] for row in query(db, "select state from wakeful.jobs")] == ["completed"]
    assert len(events(caplog, "observer_failed")) == 2


@pytest.mark.parametrize(
    ("fields", "problem"),
    [("item_id", "give the names"), (("nothing",), "does not take"), (("task",), "means something else")],
)
def test_log_fields_that_cannot_be_are_refused(fields: Any, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):

        @Wakeful("postgresql://nowhere").task(log_fields=fields)
        async def enrich(item_id: str, task: str) -> None: ...


async def test_a_job_of_a_worker_that_died_is_told_of_as_rescued(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @app.task(name="t")
    async def t() -> None: ...

    for _ in range(2):
        await t.aenqueue()
    db.execute("select wakeful.register_1(gen_random_uuid(), 'gone', null, '{t}', 1, '1 second')")
    db.execute("select wakeful.claim_1((select id from wakeful.worker), '{default}', '{1}', '{2}', '{t}')")
    db.execute("update wakeful.worker set lease_expires_at = now() - interval '1 second'")
    await app.worker().arun_once()
    rescued, _ = events(caplog, "job_rescued")
    assert (rescued["task"], rescued["levelname"]) == ("t", "WARNING")
