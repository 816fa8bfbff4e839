"""The schedules' functions: one job a slot, and what people may do to a schedule."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from tests.sessions import INVALID, REFUSED, Ear, Session, call, query, refusal, scalar, session, shift_clock, value
from tests.verbs import worker_claim
from wakeful.testing import Database


def add(db: Session, name: str = "s", **said: Any) -> None:
    call(db, "add_schedule", **{"name": name, "task": "t", "every": "1 minute", **said})


def row(db: Session, name: str = "s") -> dict[str, Any]:
    [found] = query(
        db,
        "select name, queue, payload, options, cron, every, source, superseded, revision, since, last_slot,"
        " last_job_id, next_at::text from wakeful.schedule where name = %s",
        name,
    )
    return found


def now(db: Session) -> datetime:
    found = scalar(db, "select wakeful.now()")
    assert isinstance(found, datetime)
    return found


def fire(db: Session, *slots: datetime, read: dict[str, Any] | None = None, **said: Any) -> dict[str, Any]:
    """Hand in slots of the schedule as it was read; the next is an hour away."""
    there = read or row(db)
    firing = {
        "name": there["name"],
        "revision": there["revision"],
        "last_slot": there["last_slot"] and there["last_slot"].isoformat(),
        "slots": [slot.isoformat() for slot in slots],
        "next_slot": (now(db) + timedelta(hours=1)).isoformat(),
        **said,
    }
    [answer] = call(db, "fire_1", firings=Jsonb([firing]))
    return answer


def worker(db: Session, *schedules: str) -> UUID:
    """A registered worker whose code declares these schedules."""
    id = uuid4()
    arguments = {"name": "w", "queues": None, "tasks": ["t"], "slots": 4, "lease": "1 hour"}
    call(db, "register_1", worker_id=id, **arguments, details={"schedules": list(schedules)})
    return id


def told(db: Session, worker: UUID) -> list[str]:
    """The schedules that a claim says are due."""
    return [one["name"] for one in worker_claim(db, worker)[1]["schedules"] or ()]


def declare(db: Session, digest: str, *, version: int = 0, **said: Any) -> str:
    definition = {
        **{"name": "s", "task": "t", "queue": None, "payload": {}, "options": {}, "cron": "@x", "every": None},
        **{"tz": "UTC", "misfire": "latest", "cap": 100, "version": version, "digest": digest},
        **said,
    }
    [answer] = call(db, "declare_schedules_1", definitions=Jsonb([definition]))
    return str(answer["answer"])


def test_a_slot_makes_its_job(db: Session) -> None:
    add(db, payload={"n": 1}, queue="slow", options={"priority": 5, "metadata": {"from": "me"}})
    slot = now(db)
    db.execute("set timezone = 'Europe/Helsinki'")
    answer = fire(db, slot)
    assert (answer["answer"], answer["jobs"]) == ("fired", 1)
    [job] = query(db, "select * from wakeful.jobs")
    assert (job["id"], job["state"], job["queue"], job["priority"]) == (answer["job_id"], "ready", "slow", 5)
    assert (job["payload"], job["run_at"]) == ({"n": 1}, slot)
    assert job["metadata"]["from"] == "me"
    assert job["metadata"]["schedule"] == "s"
    assert datetime.fromisoformat(job["metadata"]["slot"]) == slot
    assert job["metadata"]["slot"].endswith("+00:00")
    assert (row(db)["last_slot"], row(db)["last_job_id"]) == (slot, job["id"])


def test_a_slot_is_taken_once_however_often_it_is_handed_in(db: Session) -> None:
    add(db)
    read, slot = row(db), now(db)
    assert fire(db, slot, read=read)["answer"] == "fired"
    for _ in range(3):
        assert fire(db, slot, read=read)["answer"] == "lost"
        assert fire(db, slot, next_slot=slot.isoformat())["answer"] == "lost"
    assert len(query(db, "select from wakeful.job")) == 1


def test_slots_that_were_computed_from_an_older_state_are_lost(db: Session) -> None:
    """Else two workers that looked at different moments would make more of what was missed than the policy says."""
    add(db, misfire="latest")
    read, slot = row(db), now(db)
    fire(db, slot - timedelta(minutes=1), read=read, next_slot=slot.isoformat())
    assert fire(db, slot, read=read)["answer"] == "lost"
    assert fire(db, slot)["answer"] == "fired"


def test_a_slot_is_never_early(db: Session) -> None:
    add(db)
    assert fire(db, now(db) + timedelta(seconds=5))["answer"] == "lost"
    assert fire(db)["answer"] == "fired"
    # Planned for later: nothing is due any more.
    assert fire(db, now(db))["answer"] == "lost"
    assert query(db, "select from wakeful.job") == []


def test_several_slots_make_a_job_each(db: Session) -> None:
    add(db)
    slots = [now(db) - timedelta(minutes=minutes) for minutes in (3, 2, 1)]
    assert fire(db, *slots)["jobs"] == 3
    assert [job["run_at"] for job in query(db, "select run_at from wakeful.jobs order by run_at")] == slots
    assert row(db)["last_slot"] == slots[-1]


def test_while_its_last_job_is_live_a_dedup_key_makes_no_second(db: Session) -> None:
    add(db, options={"dedup_key": "one at a time"})
    first = fire(db, now(db), next_slot=now(db).isoformat())
    second = fire(db, now(db))
    assert first["job_id"] == second["job_id"]
    assert len(query(db, "select from wakeful.job")) == 1


def test_a_task_that_is_switched_off_makes_no_job_and_time_goes_on(db: Session) -> None:
    add(db)
    call(db, "switch_task", name="t", enqueuing=False)
    slot = now(db)
    answer = fire(db, slot)
    assert (answer["answer"], answer["jobs"], answer["job_id"]) == ("fired", 0, None)
    assert row(db)["last_slot"] == slot


def test_a_job_that_cannot_be_passes_its_slot_over_and_holds_up_no_other(db: Session) -> None:
    add(db, "bad", options={"tenant": ""})
    add(db, "good")
    firings = [
        {"name": name, "revision": 1, "last_slot": None, "slots": [now(db).isoformat()], "next_slot": None}
        for name in ("bad", "good")
    ]
    answers = call(db, "fire_1", firings=Jsonb(firings))
    assert [one["answer"] for one in answers] == ["failed", "fired"]
    assert "label_has_1_to_200_bytes" in answers[0]["problem"]
    assert row(db, "bad")["last_slot"] is not None
    assert len(query(db, "select from wakeful.job")) == 1


def test_one_that_someone_holds_is_busy_and_waits_for_nobody_long(db: Session, other: Session) -> None:
    add(db)
    slot = now(db)
    with other.transaction():
        other.execute("select from wakeful.schedule for update")
        assert fire(db, slot)["answer"] == "busy"
    assert fire(db, slot)["answer"] == "fired"


def test_what_changed_since_it_was_read_is_lost(db: Session) -> None:
    for change in ("pause_schedule", "change_schedule"):
        add(db, change)
        read = row(db, change)
        call(db, change, name=change, **({"changes": {"cap": 3}} if change == "change_schedule" else {}))
        assert fire(db, now(db), read=read)["answer"] == "lost"
    assert query(db, "select from wakeful.job") == []


def test_a_claim_tells_what_is_due_and_when_the_next_slot_is(db: Session) -> None:
    add(db)
    me = worker(db)
    assert told(db, me) == ["s"]
    fire(db, next_slot=(now(db) + timedelta(seconds=10)).isoformat())
    _, report = worker_claim(db, me)
    assert report["schedules"] is None
    assert 5 < report["due_in"] <= 10
    shift_clock(db, "11 seconds")
    _, report = worker_claim(db, me)
    assert [one["name"] for one in report["schedules"]] == ["s"]
    assert report["due_in"] > 11


def test_none_is_told_of_that_is_paused_or_of_another_task_or_never_due(db: Session) -> None:
    add(db, "paused")
    call(db, "pause_schedule", name="paused")
    add(db, "other", task="other")
    add(db, "over")
    fire(db, read=row(db, "over"), next_slot=None)
    me = worker(db)
    assert told(db, me) == []
    assert worker_claim(db, me)[1]["due_in"] > 3000


def test_one_in_code_is_told_to_workers_whose_code_declares_it(db: Session) -> None:
    declare(db, "a")
    assert told(db, worker(db)) == []
    assert told(db, worker(db, "s")) == ["s"]


def test_declared_again_it_stays_as_it_is(db: Session) -> None:
    assert declare(db, "a") == "new"
    fire(db, now(db))
    before = row(db)
    assert declare(db, "a") == "same"
    assert row(db) == before


def test_an_older_definition_does_not_come_back_during_a_deploy(db: Session) -> None:
    declare(db, "a", cron="1 * * * *")
    assert declare(db, "b", cron="2 * * * *") == "changed"
    assert declare(db, "a", cron="1 * * * *") == "older"
    assert declare(db, "c", cron="3 * * * *") == "changed"
    assert declare(db, "b", cron="2 * * * *") == "older"
    assert row(db)["cron"] == "3 * * * *"


def test_the_higher_version_holds(db: Session) -> None:
    declare(db, "a", version=2, cron="1 * * * *")
    assert declare(db, "b", version=1, cron="2 * * * *") == "older"
    assert declare(db, "b", version=2, cron="2 * * * *") == "changed"
    assert declare(db, "a", version=2, cron="1 * * * *") == "older"
    assert declare(db, "a", version=3, cron="1 * * * *") == "changed"
    assert row(db)["cron"] == "1 * * * *"


def test_only_a_changed_time_begins_anew(db: Session) -> None:
    declare(db, "a", cron="1 * * * *")
    fire(db, now(db))
    before = row(db)
    declare(db, "b", cron="1 * * * *", payload={"n": 2})
    assert {name: row(db)[name] for name in ("next_at", "since", "last_slot")} == {
        name: before[name] for name in ("next_at", "since", "last_slot")
    }
    declare(db, "c", cron="2 * * * *", payload={"n": 2})
    assert row(db)["since"] > before["since"]
    assert scalar(db, "select next_at = '-infinity' from wakeful.schedule")


def test_what_was_changed_by_hand_is_not_undone_by_the_same_code(db: Session) -> None:
    declare(db, "a", cron="1 * * * *")
    call(db, "change_schedule", name="s", changes={"cron": "9 * * * *"})
    assert declare(db, "a", cron="1 * * * *") == "older"
    assert row(db)["cron"] == "9 * * * *"
    assert declare(db, "b", cron="2 * * * *") == "changed"


def test_code_does_not_take_a_name_that_was_given_at_run_time(db: Session) -> None:
    add(db)
    assert declare(db, "a") == "taken"
    assert row(db)["source"] == "runtime"


def test_a_hundred_definitions_are_remembered(db: Session) -> None:
    for number in range(130):
        declare(db, f"d{number}", cap=number + 1)
    assert len(row(db)["superseded"]) == 100
    assert declare(db, "d128") == "older"


def test_a_name_is_given_once(db: Session) -> None:
    add(db)
    with refusal(REFUSED, "there is a schedule s already"):
        add(db)


def test_what_was_due_while_it_was_paused_is_not_made_up_for(db: Session) -> None:
    add(db)
    assert value(db, "pause_schedule", name="s", reason="why") is True
    assert value(db, "pause_schedule", name="s") is False
    shift_clock(db, "1 hour")
    assert value(db, "resume_schedule", name="s") is True
    assert value(db, "resume_schedule", name="s") is False
    assert now(db) - row(db)["since"] < timedelta(minutes=1)
    assert told(db, worker(db)) == ["s"]


def test_while_it_is_paused_no_slot_of_it_comes(db: Session) -> None:
    add(db)
    fire(db, now(db))
    assert scalar(db, "select next_at is not null from wakeful.schedules") is True
    call(db, "pause_schedule", name="s")
    assert scalar(db, "select next_at from wakeful.schedules") is None


def test_run_now_makes_a_job_beside_the_slots(db: Session) -> None:
    add(db, payload={"n": 1})
    call(db, "pause_schedule", name="s")
    before = row(db)
    id = value(db, "run_schedule", name="s")
    [job] = query(db, "select * from wakeful.jobs")
    assert (job["id"], job["payload"], job["metadata"]) == (id, {"n": 1}, {"schedule": "s"})
    assert {**row(db), "last_job_id": None} == {**before, "last_job_id": None}


def test_a_change_is_of_what_it_names(db: Session) -> None:
    add(db, options={"priority": 3}, payload={"n": 1})
    call(db, "change_schedule", name="s", changes={"cron": "5 * * * *", "options": {"tenant": "acme"}, "queue": "q"})
    found = row(db)
    assert (found["cron"], found["every"], found["payload"]) == ("5 * * * *", None, {"n": 1})
    assert (found["options"], found["queue"]) == ({"priority": 3, "tenant": "acme"}, "q")
    with refusal(INVALID, "nothing that a schedule has"):
        call(db, "change_schedule", name="s", changes={"last_slot": None})


@pytest.mark.parametrize("act", ["pause_schedule", "resume_schedule", "run_schedule", "remove_schedule"])
def test_one_that_is_not_there_is_told(db: Session, act: str) -> None:
    with refusal(REFUSED, "there is no schedule s"):
        call(db, act, name="s")


def test_every_act_wakes_workers_and_leaves_an_audit_row(db: Session, kept_database: Database) -> None:
    with session(kept_database.dsn) as listener:
        ear = Ear(listener)
        add(db, actor="ann")
        call(db, "change_schedule", name="s", changes={"cap": 5}, actor="ann")
        call(db, "pause_schedule", name="s", actor="ann")
        call(db, "resume_schedule", name="s", actor="ann")
        call(db, "remove_schedule", name="s", actor="ann")
        assert ear.heard(db) == [{"look": True}] * 5
    acts = query(db, "select act, actor, details ->> 'name' as name from wakeful.audits order by id")
    assert acts == [{"act": act, "actor": "ann", "name": "s"} for act in ("add", "change", "pause", "resume", "remove")]


def test_the_view_tells_whether_anyone_fires_it(db: Session) -> None:
    declare(db, "a")
    add(db, "other", task="u")
    declared = "select name, declared, next_at from wakeful.schedules order by name"
    assert [one["declared"] for one in query(db, declared)] == [False, False]
    worker(db, "s")
    assert [(one["name"], one["declared"], one["next_at"]) for one in query(db, declared)] == [
        ("other", False, None),
        ("s", True, None),
    ]


def test_a_full_queue_holds_up_its_own_schedule_only_and_loses_no_slot(db: Session) -> None:
    value(db, "set_queue_policy", queue="full", max_pending=1)
    value(db, "enqueue", task="t", payload={}, queue="full")
    add(db, "a", queue="full")
    add(db, "b")
    slot = now(db)
    firings = [
        {"name": name, "revision": row(db, name)["revision"], "last_slot": None, "slots": [slot.isoformat()]}
        for name in ("a", "b")
    ]
    full, fired = call(db, "fire_1", firings=Jsonb(firings))
    assert (full["answer"], fired["answer"], fired["jobs"]) == ("busy", "fired", 1)
    assert "may have 1" in full["problem"]
    assert row(db, "a")["last_slot"] is None
    value(db, "set_queue_policy", queue="full")
    assert call(db, "fire_1", firings=Jsonb(firings[:1]))[0]["answer"] == "fired"
