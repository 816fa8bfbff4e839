"""`wakeful dead …` as a process."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.acceptance.commands import Commands
from tests.sessions import Session, query, scalar
from tests.verbs import started


def died(db: Session, task: str = "t", message: str = "broke", **options: Any) -> UUID:
    held = started(db, task, **options)
    db.execute(
        "select wakeful.fail(%s, %s, %s, 'E42', %s, no_retry => true)",
        [held.id, held.epoch, held.worker_id, message],
    )
    return held.id


def test_dead_letters_are_listed_and_shown(wakeful: Commands, db: Session) -> None:
    first, second = died(db, "a", payload={"n": 1}), died(db, "b", "disk full")
    assert [one["id"] for one in wakeful.json("dead", "list")] == [str(second), str(first)]
    assert [one["id"] for one in wakeful.json("dead", "list", "--error", "disk")] == [str(second)]
    assert [one["id"] for one in wakeful.json("dead", "list", "--payload", '{"n": 1}')] == [str(first)]
    assert "disk full" in wakeful.text("dead", "list")
    shown = wakeful.json("dead", "show", str(first))
    assert (shown["error_code"], shown["original_job"]["payload"]) == ("E42", {"n": 1})
    assert "error message" in wakeful.text("dead", "show", str(first))


def test_dead_letters_are_acknowledged_by_id(wakeful: Commands, db: Session) -> None:
    first, second = died(db), died(db)
    assert wakeful.text("dead", "ack", str(first)) == "1 dead letter acknowledged.\n"
    [row] = query(db, "select * from wakeful.dead_letters where acknowledged")
    assert (row["id"], row["acknowledged_by"]) == (first, "tester")
    assert [one["id"] for one in wakeful.json("dead", "list")] == [str(second)]
    assert len(wakeful.json("dead", "list", "--acknowledged", "any")) == 2
    assert wakeful.json("dead", "ack", str(first)) == {"acknowledged": 0}


def test_dead_jobs_are_requeued_by_filter_once_that_is_confirmed(wakeful: Commands, db: Session) -> None:
    for task in ("a", "a", "b"):
        died(db, task)
    told = wakeful.refusal(2, "dead", "requeue", "--task", "a")
    assert "Requeue 2 dead letters? Nobody is there to ask: add --yes." in told
    code, screen = wakeful.terminal("dead", "requeue", "--task", "a", typed="n\n")
    assert code == 1
    assert "Requeue 2 dead letters? [y/N]" in screen
    assert scalar(db, "select count(*) from wakeful.jobs where state = 'ready'") == 0
    assert wakeful.json("dead", "requeue", "--task", "a", "--yes") == {"requeued": 2}
    assert scalar(db, "select count(*) from wakeful.jobs where state = 'ready' and task = 'a'") == 2
    assert [one["task"] for one in wakeful.json("dead", "list")] == ["b"]


def test_one_job_that_cannot_be_requeued_stops_no_other(wakeful: Commands, db: Session) -> None:
    for task in ("a", "b"):
        died(db, task)
    db.execute("select wakeful.switch_task('a', false)")
    ran = wakeful.run("dead", "requeue", "--all", "--yes")
    assert (ran.returncode, ran.stdout) == (1, "1 dead letter requeued.\n")
    assert "enqueuing of task a is switched off" in ran.stderr.lower()


def test_dead_letters_are_purged_and_the_counts_stay_true(wakeful: Commands, db: Session) -> None:
    first, second, third = died(db), died(db), died(db)
    assert wakeful.text("dead", "purge", str(first)) == "1 dead letter removed.\n"
    wakeful.text("dead", "ack", str(second))
    assert wakeful.json("dead", "purge", "--all", "--yes") == {"removed": 1}
    assert wakeful.json("stats")["failed"] == 1
    [left] = wakeful.json("dead", "list")
    assert left["id"] == str(third)
    acts = query(db, "select act, actor from wakeful.audits where act = 'purge'")
    assert acts == [{"act": "purge", "actor": "tester"}] * 2


@pytest.mark.parametrize("act", ["ack", "requeue", "purge"])
def test_what_is_meant_must_be_said(wakeful: Commands, db: Session, act: str) -> None:
    id = died(db)
    assert "IDs, a filter such as --task, or --all" in wakeful.refusal(2, "dead", act)
    assert "one of the three" in wakeful.refusal(2, "dead", act, str(id), "--task", "t")
    unknown = uuid4()
    told = wakeful.refusal(1, "dead", act, str(id), str(unknown))
    assert told == f"wakeful: There is no dead letter {unknown}. Find it with `wakeful dead list`.\n"
    assert scalar(db, "select count(*) from wakeful.dead_letters where not acknowledged") == 1
    assert "There is no dead letter" in wakeful.refusal(1, "dead", "show", str(unknown))
