"""`wakeful schedules …` as processes."""

from __future__ import annotations

from tests.acceptance.commands import Commands
from tests.sessions import Session, call, query


def add(db: Session) -> None:
    call(db, "add_schedule", name="nightly", task="tidy", cron="30 3 * * *", tz="Europe/Helsinki")


def test_schedules_are_listed_with_their_next_slot(wakeful: Commands, db: Session) -> None:
    add(db)
    call(db, "add_schedule", name="often", task="tidy", every="90 seconds")
    [nightly, often] = wakeful.json("schedules", "list")
    assert (nightly["name"], nightly["cron"], nightly["tz"]) == ("nightly", "30 3 * * *", "Europe/Helsinki")
    assert (often["every"], often["paused"], often["declared"]) == (90, False, False)
    assert nightly["next_at"]
    text = wakeful.text("schedules", "list")
    assert "03:30:00" in text
    assert "every 0:01:30" in text
    assert "no worker" in text


def test_what_no_worker_can_read_is_listed_with_the_others(wakeful: Commands, db: Session) -> None:
    """Whoever is to mend it must see it; SQL takes any text for a line or a zone."""
    add(db)
    call(db, "add_schedule", name="wrong line", task="tidy", cron="61 * * * *")
    call(db, "add_schedule", name="wrong zone", task="tidy", cron="0 3 * * *", tz="Mars/Phobos")
    call(db, "add_schedule", name="zone of an interval", task="tidy", every="1 hour", tz="Mars/Phobos")
    listed = {one["name"]: one["next_at"] for one in wakeful.json("schedules", "list")}
    assert [name for name, next_at in listed.items() if next_at is None] == ["wrong line", "wrong zone"]
    lines = wakeful.text("schedules", "list").splitlines()
    assert [line.split("  ")[0] for line in lines if "unreadable" in line] == ["wrong line", "wrong zone"]
    assert "03:30:00" in lines[1]


def test_one_is_run_now(wakeful: Commands, db: Session) -> None:
    add(db)
    id = wakeful.text("schedules", "run", "nightly").strip()
    [job] = query(db, "select id::text, task, metadata from wakeful.jobs")
    assert job == {"id": id, "task": "tidy", "metadata": {"schedule": "nightly"}}
    assert wakeful.json("schedules", "run", "nightly")["name"] == "nightly"
    call(db, "switch_task", name="tidy", enqueuing=False)
    assert "is off" in wakeful.refusal(1, "schedules", "run", "nightly")


def test_one_is_paused_resumed_and_removed(wakeful: Commands, db: Session) -> None:
    add(db)
    assert wakeful.text("schedules", "pause", "nightly", "--reason", "why") == "Schedule nightly is paused.\n"
    [listed] = wakeful.json("schedules", "list")
    assert (listed["paused"], listed["changed_by"], listed["reason"]) == (True, "tester", "why")
    assert wakeful.json("schedules", "resume", "nightly") == {"name": "nightly", "paused": False}
    assert "add --yes" in wakeful.refusal(2, "schedules", "remove", "nightly")
    assert wakeful.text("schedules", "remove", "nightly", "--yes") == "Schedule nightly is removed.\n"
    assert wakeful.json("schedules", "list") == []


def test_one_that_is_not_there_is_told_in_a_sentence(wakeful: Commands) -> None:
    told = wakeful.refusal(1, "schedules", "pause", "nightly")
    assert "There is no schedule nightly" in told
    assert "wakeful schedules list" in told
