"""`wakeful queues …` and `workers list` as processes."""

from __future__ import annotations

import pytest

from tests.acceptance.commands import Commands
from tests.sessions import Session, call, scalar, value
from tests.verbs import claim, enqueue, started


def test_queues_are_listed_with_what_waits_in_them(wakeful: Commands, db: Session) -> None:
    enqueue(db, queue="mail")
    enqueue(db, queue="mail", delay="1 hour")
    started(db, "r", queue="slow")
    listed = {one["queue"]: one for one in wakeful.json("queues", "list")}
    assert {name: (one["ready"], one["scheduled"], one["running"]) for name, one in listed.items()} == {
        "mail": (1, 1, 0),
        "slow": (0, 0, 1),
    }
    assert not listed["mail"]["paused"]
    assert "mail" in wakeful.text("queues", "list")


def test_a_paused_queue_starts_nothing_until_it_is_resumed(wakeful: Commands, db: Session) -> None:
    enqueue(db, queue="mail")
    assert wakeful.text("queues", "pause", "mail", "--reason", "deploy") == "Queue mail is paused.\n"
    assert claim(db) == []
    [listed] = wakeful.json("queues", "list")
    assert (listed["paused"], listed["changed_by"], listed["reason"]) == (True, "tester", "deploy")
    assert wakeful.json("queues", "resume", "mail") == {"queue": "mail", "paused": False}
    assert len(claim(db)) == 1


def test_a_task_is_paused_whichever_its_queue(wakeful: Commands, db: Session) -> None:
    enqueue(db, "billing.charge")
    assert wakeful.json("queues", "pause", "--task", "billing.charge") == {
        "task": "billing.charge",
        "paused": True,
    }
    assert claim(db) == []
    assert [one["task"] for one in wakeful.json("queues", "list", "--tasks")] == ["billing.charge"]
    assert "Paused tasks: billing.charge." in wakeful.run("queues", "list").stderr
    wakeful.text("queues", "resume", "--task", "billing.charge")
    assert len(claim(db)) == 1


@pytest.mark.parametrize(
    ("kind", "arguments", "near"),
    [
        ("queue", ["reprots"], "did you mean reports?"),
        ("queue", ["nope"], "check the name."),
        ("task", ["--task", "invocie"], "did you mean invoice?"),
    ],
)
def test_a_pause_of_what_nobody_knows_is_done_and_told(
    wakeful: Commands, db: Session, kind: str, arguments: list[str], near: str
) -> None:
    call(db, "add_schedule", name="nightly", task="invoice", queue="reports", cron="30 3 * * *")
    ran = wakeful.run("queues", "pause", *arguments)
    assert (ran.returncode, ran.stdout) == (0, f"{kind.capitalize()} {arguments[-1]} is paused.\n")
    assert ran.stderr == f"wakeful: No job, worker or schedule knows {kind} {arguments[-1]}: {near}\n"
    assert scalar(db, "select paused from wakeful.controls where kind = %s and name = %s", kind, arguments[-1])


def test_a_pause_of_what_is_known_says_no_more_than_that(wakeful: Commands, db: Session) -> None:
    held = started(db, "done", queue="drained")
    value(db, "complete", id=held.id, epoch=held.epoch, worker_id=held.worker_id)
    value(db, "set_queue_policy", queue="limited", concurrency=3)
    call(db, "add_schedule", name="nightly", task="invoice", queue="reports", cron="30 3 * * *")
    for arguments in (["drained"], ["limited"], ["reports"], ["--task", "done"], ["--task", "invoice"]):
        assert wakeful.run("queues", "pause", *arguments).stderr == ""


def test_a_resumption_of_what_was_not_paused_says_so(wakeful: Commands, db: Session) -> None:
    enqueue(db, queue="mail")
    assert wakeful.text("queues", "resume", "mail") == "Queue mail was not paused.\n"
    ran = wakeful.run("queues", "resume", "mial")
    assert (ran.returncode, ran.stdout) == (0, "Queue mial was not paused.\n")
    assert "did you mean mail?" in ran.stderr
    wakeful.text("queues", "pause", "mail")
    assert wakeful.text("queues", "resume", "mail") == "Queue mail is resumed.\n"


def test_a_queue_or_a_task_must_be_named(wakeful: Commands) -> None:
    assert "Name a queue, or a task with --task" in wakeful.refusal(2, "queues", "pause")
    assert "one of the two" in wakeful.refusal(2, "queues", "resume", "q", "--task", "t")
    assert "colons" in wakeful.refusal(2, "queues", "pause", "a:b")


def test_workers_are_listed(wakeful: Commands, db: Session) -> None:
    assert wakeful.json("workers", "list") == []
    worker = "0190b3a0-0000-7000-8000-000000000001"
    call(
        db,
        "register_1",
        worker_id=worker,
        name="here",
        queues=None,
        tasks=["a", "b"],
        slots=4,
        lease="1 minute",
        details={"pid": 7},
    )
    [listed] = wakeful.json("workers", "list")
    assert (listed["id"], listed["name"], listed["slots"]) == (worker, "here", 4)
    assert (listed["alive"], listed["tasks"], listed["details"]) == (True, ["a", "b"], {"pid": 7})
    assert "here" in wakeful.text("workers", "list")
