"""Bulk acts on dead letters: each once, whatever interrupts them, at the pace that was asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.effort import times
from tests.failures.letters import INSERT_LETTERS
from tests.sessions import Session, query, scalar, session
from wakeful.app import Wakeful
from wakeful.queue import dead, sweep
from wakeful.queue.dead import act_on_all, act_on_ids
from wakeful.queue.script import Script, Sleep, play
from wakeful.statements import operate
from wakeful.statements.read import JobFilter
from wakeful.statements.statement import Statement
from wakeful.testing import Database
from wakeful.values.errors import InvalidOption, JobNotFound

LETTERS = times(1500)


class Interrupted(Exception):
    """Someone pressed Ctrl-C."""


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@pytest.fixture
def app(database: Database) -> Iterator[Wakeful]:
    with Wakeful(database.dsn) as made:
        yield made


def bury_some(db: Session, number: int, task: str = "t") -> None:
    db.execute(INSERT_LETTERS, {"task": task, "number": number})


def test_a_bulk_requeue_that_is_interrupted_goes_on_where_it_was(app: Wakeful, db: Session) -> None:
    bury_some(db, LETTERS)
    bury_some(db, 10, "other")
    seen = 0

    def told(more: int) -> None:
        nonlocal seen
        seen += more
        if seen >= LETTERS // 2:
            raise Interrupted

    act = operate.requeued("ann")
    with pytest.raises(Interrupted):
        play(app.database, act_on_all(JobFilter(task="t"), False, act, told=told))
    assert 0 < scalar(db, "select count(*) from wakeful.job") < LETTERS
    done = app.dead.requeue(task="t", error="E42", actor="ann")
    assert seen + done == LETTERS
    # None lost, none doubled: each payload is there once, and linked both ways.
    assert scalar(db, "select count(distinct payload ->> 'n') from wakeful.job") == LETTERS
    assert scalar(db, "select count(*) from wakeful.job") == LETTERS
    linked = (
        "select count(*) from wakeful.dead_letter d join wakeful.job j on j.id = d.requeued_as and j.origin_id = d.id"
    )
    assert scalar(db, linked) == LETTERS
    assert scalar(db, "select count(*) from wakeful.audit where act = 'requeue' and actor = 'ann'") == LETTERS
    assert app.dead.requeue(task="t") == 0


def waits_of(app: Wakeful, script: Script[int], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Play a script on a clock that stands still: how long it would wait, each time."""
    for module in (dead, sweep):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0))
    waits: list[float] = []
    answer: object = None
    while True:
        try:
            step = script.send(answer)
        except StopIteration:
            return waits
        if isinstance(step, Sleep):
            waits.append(step.seconds or 0.0)
            answer = None
        else:
            assert isinstance(step, Statement)
            answer = app.database.run(step)


def test_a_requeue_is_paced(app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    bury_some(db, 30)
    waits = waits_of(app, act_on_all(JobFilter(task="t"), False, operate.requeued(None), rate=100), monkeypatch)
    assert waits == pytest.approx([0.1, 0.2, 0.3])
    assert scalar(db, "select count(*) from wakeful.job") == 30


def test_a_requeue_by_id_is_paced_too(app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    bury_some(db, 30)
    ids = [letter.id for letter in app.dead.list()]
    waits = waits_of(app, act_on_ids(ids, operate.requeued(None), rate=100), monkeypatch)
    assert waits == pytest.approx([0.1, 0.2])
    assert scalar(db, "select count(*) from wakeful.job") == 30


def test_the_pace_of_the_public_verb_is_kept(app: Wakeful, db: Session) -> None:
    bury_some(db, 3)
    began = time.monotonic()
    assert app.dead.requeue(task="t", rate=10) == 3
    assert time.monotonic() - began >= 0.29


def test_letters_are_acknowledged_and_purged_by_id_or_filter(app: Wakeful, db: Session) -> None:
    bury_some(db, 3)
    first = app.dead.list(limit=1)[0]
    assert app.dead.acknowledge(first.id, actor="ann") == 1
    assert app.dead.acknowledge(first.id) == 0
    assert app.dead.purge(tenant="a") == 1
    assert app.dead.acknowledge(tenant="a", older_than="0s") == 2
    assert app.dead.purge(task="t") == 2
    assert {row["act"] for row in query(db, "select act from wakeful.audits")} == {"acknowledge", "purge"}


def test_what_is_not_said_clearly_is_not_done(app: Wakeful, db: Session) -> None:
    bury_some(db, 1)
    with pytest.raises(InvalidOption, match="say which"):
        app.dead.purge()
    with pytest.raises(JobNotFound):
        app.dead.requeue("00000000-0000-7000-8000-000000000000")
    assert scalar(db, "select count(*) from wakeful.dead_letter where not acknowledged") == 1


def test_a_filter_that_was_not_set_is_none(app: Wakeful) -> None:
    for act in (app.dead.purge, app.dead.requeue, app.dead.acknowledge):
        with pytest.raises(InvalidOption, match="have to be given"):
            act(tenant=None, task=None)
