"""`wakeful.enqueue_many` and `wakeful.enqueue_batch_1`: sets of jobs, each answered in its place."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.sessions import INVALID, Session, call, query, refusal, value
from tests.verbs import claim_one, complete, enqueue, enqueue_many, job, started, states
from wakeful.values.identity import new_ids


def actions(rows: list[dict[str, Any]]) -> list[str]:
    return [row["action"] for row in rows]


def test_every_job_is_answered_in_the_order_of_the_asking(db: Session) -> None:
    made = enqueue_many(db, [{"task": "t", "payload": {"n": n}} for n in range(50)])
    assert [row["place"] for row in made] == list(range(1, 51))
    assert set(actions(made)) == {"inserted"}
    assert [job(db, row["id"])["payload"]["n"] for row in made] == list(range(50))


def test_an_empty_set_is_no_work(db: Session) -> None:
    assert enqueue_many(db, []) == []
    assert call(db, "enqueue_batch_1", ids=[], tasks=[], payloads=[]) == []


def test_the_keys_are_the_options_of_enqueue(db: Session) -> None:
    id, parent = uuid4(), uuid4()
    options = {
        "task": "t",
        "id": str(id),
        "queue": "slow",
        "priority": -3,
        "delay": "1 hour",
        "max_attempts": 2,
        "dedup_key": "k",
        "dedup": "raise",
        "tenant": "acme",
        "parent_id": str(parent),
        "created_by": "ann",
        "metadata": {"a": None},
    }
    [made] = enqueue_many(db, [options])
    row = job(db, id)
    assert made == {"place": 1, "id": id, "action": "inserted"}
    assert (row["queue"], row["priority"], row["max_attempts"], row["tenant"]) == ("slow", -3, 2, "acme")
    assert (row["dedup_key"], row["parent_id"], row["created_by"], row["metadata"]) == (
        *("k", parent, "ann"),
        {"a": None},
    )
    assert row["state"] == "scheduled"


@pytest.mark.parametrize("jobs", [{}, 1, None])
def test_anything_but_an_array_is_refused(db: Session, jobs: object) -> None:
    with refusal(INVALID):
        call(db, "enqueue_many", jobs=Jsonb(jobs))


@pytest.mark.parametrize("job", [1, None, [], "t"])
def test_anything_but_an_object_in_the_array_is_refused_by_its_place(db: Session, job: object) -> None:
    with refusal(INVALID, match="job 2 "):
        call(db, "enqueue_many", jobs=Jsonb([{"task": "t"}, job]))


def test_an_unknown_option_is_refused_by_its_name(db: Session) -> None:
    with refusal(INVALID, match="job 2 has an unknown option: prioritty"):
        enqueue_many(db, [{"task": "t"}, {"task": "t", "prioritty": 5}])
    assert states(db) == {}


def test_one_impossible_job_fails_the_whole_set(db: Session) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        enqueue_many(db, [{"task": "t"}, {"task": "t", "priority": 500}])
    with refusal(INVALID):
        enqueue_many(db, [{"task": "t"}, {"payload": {}}])
    assert states(db) == {}


def test_twins_within_a_set_join_the_first(db: Session) -> None:
    made = enqueue_many(db, [{"task": "t", "dedup_key": "k", "payload": {"n": n}} for n in range(3)])
    assert actions(made) == ["inserted", "skipped", "skipped"]
    assert {row["id"] for row in made} == set(states(db))
    assert job(db, made[0]["id"])["payload"] == {"n": 0}


def test_the_newest_of_replacing_twins_within_a_set_wins(db: Session) -> None:
    jobs = [{"task": "t", "dedup_key": "k", "dedup": "replace", "payload": {"n": n}} for n in range(3)]
    made = enqueue_many(db, jobs)
    assert actions(made) == ["inserted", "replaced", "replaced"]
    assert job(db, made[0]["id"])["payload"] == {"n": 2}


def test_a_set_tells_new_from_resent_from_skipped_from_off(db: Session) -> None:
    over = started(db)
    complete(db, over)
    live = enqueue(db)
    twin = enqueue(db, dedup_key="k")
    value(db, "switch_task", name="off", enqueuing=False)
    made = enqueue_many(
        db,
        [
            {"task": "off"},
            {"task": "t", "id": str(live)},
            {"task": "t", "dedup_key": "k"},
            {"task": "t", "id": str(over.id)},
            {"task": "t"},
        ],
    )
    assert actions(made) == ["off", "resent", "skipped", "resent", "inserted"]
    assert [row["id"] for row in made[:4]] == [None, live, twin, over.id]
    assert len(states(db)) == 4


def test_one_element_of_an_array_stands_for_all_rows(db: Session) -> None:
    ids = [uuid4() for _ in range(3)]
    call(
        db,
        "enqueue_batch_1",
        ids=ids,
        tasks=["t"],
        payloads=['{"n": 1}', '{"n": 2}', '{"n": 3}'],
        queues=["slow"],
        priorities=[1, 2, 3],
        tenants=["acme"],
    )
    made = [job(db, id) for id in ids]
    assert [row["payload"]["n"] for row in made] == [1, 2, 3]
    assert [row["priority"] for row in made] == [1, 2, 3]
    assert {(row["task"], row["queue"], row["tenant"]) for row in made} == {("t", "slow", "acme")}


def test_arrays_that_do_not_match_are_refused(db: Session) -> None:
    ids = [uuid4(), uuid4(), uuid4()]
    for tasks, payloads in ([["t", "t"], ["{}"] * 3], [["t"], ["{}"] * 2], [["t"], ["{}"] * 4]):
        with refusal(INVALID):
            call(db, "enqueue_batch_1", ids=ids, tasks=tasks, payloads=payloads)
    assert states(db) == {}


def test_a_task_that_is_off_by_default_waits_for_its_switch(db: Session) -> None:
    def batch() -> list[str]:
        ids = [uuid4()]
        rows = call(db, "enqueue_batch_1", ids=ids, tasks=["t"], payloads=["{}"], default_offs=[True], fresh=False)
        return actions(rows)

    assert batch() == ["off"]
    value(db, "switch_task", name="t", enqueuing=True)
    assert batch() == [], "nothing is told of what was inserted"
    value(db, "switch_task", name="t", enqueuing=False)
    assert batch() == ["off"]


def test_an_old_id_that_is_called_fresh_is_looked_for_all_the_same(db: Session) -> None:
    old = UUID("01890000-0000-7000-8000-000000000001")
    enqueue(db, id=old)
    complete(db, claim_one(db))
    [made] = call(db, "enqueue_batch_1", ids=[old], tasks=["t"], payloads=["{}"], fresh=True)
    assert made["action"] == "resent"
    assert states(db) == {old: "completed"}


USUAL: list[dict[str, object]] = [
    {},
    {"queues": ["slow"], "priorities": [7], "max_attempts": [2], "created_bys": ["ann"]},
    {"tenants": ["acme"], "metadatas": ['{"a": 1}'], "expires_ats": ["2100-01-01 00:00:00+00"]},
    {"tenants": ["a", None, "c"], "metadatas": ["{}", None, '{"b": [2]}']},
    {"correlation_ids": [UUID(int=5)]},
    {"correlation_ids": [UUID(int=5), None, UUID(int=7)]},
]


@pytest.mark.parametrize("options", USUAL)
@pytest.mark.parametrize("alone", [True, False])
def test_the_short_way_makes_the_rows_that_the_long_way_makes(
    db: Session, options: dict[str, object], alone: bool
) -> None:
    def made(fresh: bool) -> list[dict[str, Any]]:
        ids = new_ids(3)
        payloads = [f'{{"n": {n}}}' for n in range(3)]
        assert not call(
            db, "enqueue_batch_1", ids=ids, tasks=["t"], payloads=payloads, fresh=fresh, alone=alone, **options
        )
        rows = query(db, "select * from wakeful.job order by id")
        db.execute("delete from wakeful.job")
        assert [row.pop("id") for row in rows] == ids
        for row in rows:
            assert row["run_at"] == row.pop("ready_at") == row.pop("created_at") == row.pop("updated_at")
            row["begins"] = row["correlation_id"] in ids
            del row["run_at"]
            row["correlation_id"] = None if row["begins"] else row["correlation_id"]
        return rows

    assert made(fresh=True) == made(fresh=False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"payloads": ["{}", None]},
        {"payloads": ["{}"]},
        {"payloads": ["{}"] * 3},
        {"tasks": [None]},
        {"tasks": []},
        {"tenants": ["a", "b", "c"]},
        {"ids": [UUID("01890000-0000-7000-8000-000000000001"), None]},
    ],
)
def test_fresh_jobs_that_no_row_can_hold_are_refused_as_others_are(db: Session, wrong: dict[str, object]) -> None:
    asked = {"ids": new_ids(2), "tasks": ["t"], "payloads": ["{}"] * 2, **wrong}
    with refusal(INVALID):
        call(db, "enqueue_batch_1", fresh=True, **asked)
    assert states(db) == {}


def test_fresh_jobs_of_a_task_that_is_switched_off_make_none(db: Session) -> None:
    value(db, "switch_task", name="t", enqueuing=False)
    rows = call(db, "enqueue_batch_1", ids=new_ids(2), tasks=["t"], payloads=["{}"] * 2, fresh=True)
    assert actions(rows) == ["off", "off"]


def test_fresh_jobs_do_not_overfill_a_queue(db: Session) -> None:
    value(db, "set_queue_policy", queue="small", max_pending=3)
    made = {"tasks": ["t"], "payloads": ["{}"] * 2, "queues": ["small"], "fresh": True}
    call(db, "enqueue_batch_1", ids=new_ids(2), **made)
    with refusal("WF008"):
        call(db, "enqueue_batch_1", ids=new_ids(2), **made)


def test_a_large_set_is_made_whole(db: Session) -> None:
    made = enqueue_many(db, [{"task": f"t{n % 7}", "priority": n % 5} for n in range(5000)])
    assert len({row["id"] for row in made}) == 5000
    [counted] = query(db, "select count(*) as jobs, count(distinct task) as tasks from wakeful.jobs")
    assert counted == {"jobs": 5000, "tasks": 7}
