"""Metrics in the database: what settlements leave behind, folded, rolled up and read."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.sessions import Session, call, query, scalar, shift_clock, value
from tests.verbs import claim, claim_one, complete, complete_all, enqueue, fail, register, settle, started, worker_claim


def metrics(db: Session, **options: object) -> dict[str, dict[str, Any]]:
    return {row["task"]: row for row in call(db, "task_metrics", **options)}


def counts(row: dict[str, Any]) -> tuple[int, int, int, int]:
    return row["completed"], row["failed"], row["dead"], row["others"]


def test_every_run_is_counted_once_by_how_it_went(db: Session) -> None:
    worker = uuid4()
    for _ in range(3):
        enqueue(db, "a")
    complete_all(db, worker, claim(db, worker, want=3))
    held = started(db, "b", max_attempts=2)
    fail(db, held, retry_in="0")
    fail(db, claim_one(db, tasks=["b"]))
    call(db, "snooze", **started(db, "c").fence, delay="1 hour")
    call(db, "release", **started(db, "d").fence)
    stopped = started(db, "e", worker)
    settle(db, worker, [(stopped.id, stopped.epoch, "cancelled", None)])
    asked = started(db, "f")
    value(db, "cancel", id=asked.id)
    fail(db, asked, retry_in="1 hour")
    value(db, "cancel", id=enqueue(db, "never ran"))
    for _ in range(2):
        found = metrics(db)
        assert {task: counts(row) for task, row in found.items()} == {
            "a": (3, 0, 0, 0),
            "b": (0, 1, 1, 0),
            "c": (0, 0, 0, 1),
            "d": (0, 0, 0, 1),
            "e": (0, 0, 0, 1),
            "f": (0, 0, 0, 1),
        }
        value(db, "fold_metrics")
    assert scalar(db, "select count(*) from wakeful.metric_delta") == 0


def test_a_run_of_a_worker_that_died_is_counted(db: Session) -> None:
    worker = register(db, lease="1 second")
    enqueue(db)
    worker_claim(db, worker)
    shift_clock(db, "1 minute")
    value(db, "rescue")
    assert query(db, "select distinct outcome from wakeful.metric_delta") == [{"outcome": "crashed"}]


@pytest.mark.parametrize("folds", [False, True])
def test_percentiles_are_right_to_within_a_tenth(db: Session, folds: bool) -> None:
    for step, seconds in enumerate((*[1.0] * 90, *[10.0] * 8, *[100.0] * 2)):
        db.execute(
            "select wakeful.measure(array[row('t', null, 'completed', at - make_interval(secs => %s),"
            " at - make_interval(secs => %s) - interval '2 seconds', null)::wakeful.measured_run], at)"
            " from (select wakeful.now() as at) n",
            [seconds, seconds],
        )
        if folds and step % 20 == 0:
            value(db, "fold_metrics")
    row = metrics(db)["t"]
    for name, wanted in {"run_p50": 1, "run_p95": 10, "run_p99": 100, "wait_p50": 2, "wait_p99": 2}.items():
        assert row[name] == pytest.approx(wanted, rel=0.1), name
    assert row["average_seconds"] == pytest.approx((90 + 80 + 200) / 100)


def test_minutes_become_hours_and_days_and_are_forgotten(db: Session) -> None:
    complete(db, started(db))
    value(db, "fold_metrics")

    def grains() -> set[str]:
        return {row["grain"] for row in query(db, "select distinct grain from wakeful.metric")}

    value(db, "roll_metrics")
    assert grains() == {"minute"}
    for hours, grain in ((8, "hour"), (15 * 24, "day")):
        shift_clock(db, f"{hours} hours")
        value(db, "roll_metrics")
        assert grains() == {grain}
        assert counts(metrics(db)["t"]) == (1, 0, 0, 0)
    shift_clock(db, "401 days")
    value(db, "roll_metrics")
    assert metrics(db) == {}


def test_a_minute_takes_few_rows_however_much_its_runs_differ(db: Session) -> None:
    for _ in range(2):
        for seconds in (0.001, 0.01, 0.1, 1, 10, 100):
            db.execute(
                "select wakeful.measure(array[row('t', null, 'completed', at - make_interval(secs => %s),"
                " at - interval '1 hour', null)::wakeful.measured_run], at) from (select wakeful.now() as at) n",
                [seconds],
            )
        assert value(db, "fold_metrics") == 2
    minutes = scalar(db, "select count(distinct at) from wakeful.metric")
    assert scalar(db, "select count(*) from wakeful.metric") == 2 * minutes
    assert scalar(db, "select sum(n) from wakeful.metric m, unnest(m.runs) n where measure = 'run'") == 12
    assert scalar(db, "select bool_and(buckets = array(select unnest(buckets) order by 1)) from wakeful.metric")
    assert counts(metrics(db)["t"]) == (12, 0, 0, 0)


def test_only_what_ran_since_then_is_told_of(db: Session) -> None:
    complete(db, started(db, "early"))
    value(db, "fold_metrics")
    shift_clock(db, "2 hours")
    complete(db, started(db, "late"))
    since = scalar(db, "select wakeful.now() - interval '1 hour'")
    assert metrics(db, since=since).keys() == {"late"}
    assert metrics(db, of_task="early").keys() == {"early"}


def test_a_tenants_usage_is_summed_by_day_and_that_of_others_is_not(db: Session) -> None:
    held = started(db, "a", tenant="acme")
    shift_clock(db, "10 seconds")
    fail(db, held, retry_in="0")
    complete(db, claim_one(db))
    complete(db, started(db, "a", tenant="bolt"))
    complete(db, started(db, "a"))
    for _ in range(2):
        rows = query(db, "select tenant, outcome, runs, seconds from wakeful.usages order by tenant, outcome")
        assert [(row["tenant"], row["outcome"], row["runs"]) for row in rows] == [
            ("acme", "completed", 1),
            ("acme", "failed", 1),
            ("bolt", "completed", 1),
        ]
        assert rows[1]["seconds"] == pytest.approx(10, abs=5)
        value(db, "fold_metrics")


def test_counters_are_added_when_the_job_is_over_whichever_attempt_counted(db: Session) -> None:
    held = started(db, "a")
    call(db, "note_1", **held.fence, counters={"upserted": 4, "errors": 1})
    fail(db, held, retry_in="0")
    [summary] = call(db, "metrics_summary")
    assert summary["counters"] == {}
    again = claim_one(db)
    call(db, "note_1", **again.fence, counters={"upserted": 5})
    complete(db, again)
    dead = started(db, "b")
    call(db, "note_1", **dead.fence, counters={"upserted": 1})
    fail(db, dead, no_retry=True)
    for _ in range(2):
        [summary] = call(db, "metrics_summary")
        assert summary["counters"] == {"upserted": 10, "errors": 1}
        assert (summary["jobs"], summary["succeeded"], summary["failed"]) == (3, 1, 2)
        [of_one] = call(db, "metrics_summary", task="b")
        assert of_one["counters"] == {"upserted": 1}
        value(db, "fold_metrics")


def test_job_metrics_has_a_row_for_each_run(db: Session) -> None:
    held = started(db, "a")
    fail(db, held, retry_in="0")
    complete(db, claim_one(db))
    dead = started(db, "b")
    fail(db, dead, no_retry=True)
    rows = query(db, "select * from wakeful.job_metrics order by recorded_at")
    assert [(row["job_type"], row["status"], row["attempt"]) for row in rows] == [
        ("a", "failed", 1),
        ("a", "completed", 2),
        ("b", "dead", 1),
    ]
    assert {"id", "job_type", "status", "duration_ms", "queue_time_ms", "recorded_at"} <= rows[0].keys()
    assert all(0 <= row["duration_ms"] < 60_000 for row in rows)
    assert rows[1]["queue_time_ms"] >= 0


def test_who_folds_at_the_same_time_leaves_it_to_the_other(db: Session, other: Session) -> None:
    complete(db, started(db))
    with other.transaction():
        assert value(other, "fold_metrics") > 0
        complete(db, started(db))
        assert value(db, "fold_metrics") == 0
    assert counts(metrics(db)["t"]) == (2, 0, 0, 0)


def test_the_average_is_of_those_runs_that_came_to_an_end(db: Session) -> None:
    for outcome, seconds in (("completed", 1), ("snoozed", 99)):
        db.execute(
            "select wakeful.measure(array[row('t', null, %s, at - make_interval(secs => %s), at - interval '1 hour',"
            " null)::wakeful.measured_run], at) from (select wakeful.now() as at) n",
            [outcome, seconds],
        )
    assert metrics(db)["t"]["average_seconds"] == pytest.approx(1)
    assert call(db, "metrics_summary")[0]["seconds"] == pytest.approx(1)


def test_since_then_includes_the_hour_in_which_it_lies(db: Session) -> None:
    complete(db, started(db))
    value(db, "fold_metrics")
    since = scalar(db, "select wakeful.now() - interval '1 minute'")
    shift_clock(db, "8 hours")
    value(db, "roll_metrics")
    assert counts(metrics(db, since=since)["t"]) == (1, 0, 0, 0)
    assert metrics(db, since=scalar(db, "select wakeful.now() - interval '5 hours'")) == {}
