"""`wakeful breakers …` as processes."""

from __future__ import annotations

from tests.acceptance.commands import Commands
from tests.sessions import Session, scalar, value
from tests.verbs import claim, enqueue


def test_breakers_are_listed_tripped_and_reset(wakeful: Commands, db: Session) -> None:
    value(db, "set_task_policy", task="t", breaker="smtp")
    enqueue(db)
    assert wakeful.text("breakers", "trip", "smtp", "--for", "10m", "--reason", "upgrade") == "Breaker smtp is open.\n"
    [told] = wakeful.json("breakers", "list")
    assert (told["name"], told["state"], told["tasks"]) == ("smtp", "open", ["t"])
    assert claim(db, tasks=["t"]) == []
    listed = wakeful.text("breakers", "list")
    assert "smtp" in listed
    assert "open" in listed
    assert wakeful.json("breakers", "reset", "smtp") == {"breaker": "smtp", "state": "closed"}
    assert len(claim(db, tasks=["t"])) == 1
    assert scalar(db, "select count(*) from wakeful.audits where actor = 'tester'") == 2


def test_what_cannot_be_is_told(wakeful: Commands) -> None:
    assert "no breaker is called" in wakeful.refusal(1, "breakers", "reset", "nobody").lower()
    assert "--for" in wakeful.refusal(2, "breakers", "trip", "smtp", "--for", "soon")
    assert "--for is '-3': give a duration of more than zero" in wakeful.refusal(2, "breakers", "trip", "s", "--for=-3")


def test_a_breaker_that_nobody_declared_is_not_tripped(wakeful: Commands, db: Session) -> None:
    value(db, "set_task_policy", task="t", breaker="smtp")
    assert "No breaker is called smpt: did you mean smtp?" in wakeful.refusal(1, "breakers", "trip", "smpt")
    assert "No breaker is called x: see `wakeful breakers list`." in wakeful.refusal(1, "breakers", "trip", "x")
    assert [one["name"] for one in wakeful.json("breakers", "list")] == ["smtp"]
