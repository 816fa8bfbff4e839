"""Each checker is shown evidence that breaks its invariant, and evidence that does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.chaos.evidence import Evidence, Job, Move
from tests.chaos.history import Asked, Run
from tests.chaos.invariants import INVARIANTS, broken

AT = datetime(2030, 1, 1, tzinfo=UTC)
JOB, OTHER, WORKER, STRANGER = uuid4(), uuid4(), uuid4(), uuid4()
READY, RUNNING, GONE = 1, 2, None


def move(seq: int, before: int | None, after: int | None, epoch: int, **facts: Any) -> Move:
    """A move of the one job."""
    at = AT + timedelta(seconds=seq)
    return Move(seq, facts.pop("job", JOB), "quick", before, after, epoch, at, worker=WORKER, **facts)


def done(**facts: Any) -> Job:
    """The one job, completed."""
    given = {"worker_id": WORKER, "result": {"epoch": 1}, **facts}
    return Job(given.pop("id", JOB), given.pop("task", "quick"), given.pop("state", "completed"), **given)


def sound() -> Evidence:
    """A job that was asked for, claimed, run and completed; shown as what it is."""
    return Evidence(
        asked={JOB: Asked(JOB, "quick", JOB)},
        runs=[Run(JOB, 1, 1, 7, 1.0, 2.0)],
        jobs=[done()],
        moves=[move(1, None, READY, 0), move(2, READY, RUNNING, 1), move(3, RUNNING, GONE, 1)],
        shown={"completed": 1, "dead": 0},
    )


def crashed(epoch: int, outcome: str = "crashed") -> dict[str, Any]:
    return {"epoch": epoch, "outcome": outcome}


def tick(slot: int) -> Job:
    """A job of a schedule."""
    at = (AT + timedelta(seconds=slot)).isoformat()
    return done(id=uuid4(), task="tick", metadata={"schedule": "tick", "slot": at})


Forge = Callable[[Evidence], None]


def has(**facts: Any) -> Forge:
    """The evidence, with these facts in the place of what it had."""

    def forge(seen: Evidence) -> None:
        for name, fact in facts.items():
            setattr(seen, name, fact)

    return forge


def jobs(*rows: Job, **facts: Any) -> Forge:
    return has(jobs=list(rows), **facts)


def moves(*told: Move) -> Forge:
    return has(moves=list(told))


def runs(*told: Run, **facts: Any) -> Forge:
    return has(runs=list(told), **facts)


def asked(*told: Asked, **facts: Any) -> Forge:
    return has(asked={one.job: one for one in told}, **facts)


claimed = move(2, READY, RUNNING, 1)
FORGED: dict[str, tuple[int, Forge]] = {
    "an acknowledged job is missing": (1, jobs()),
    "an acknowledged job is there twice": (1, jobs(done(), done())),
    "an acknowledged job is still live": (1, jobs(done(state="ready"))),
    "a job is there that nobody asked for": (1, jobs(done(), done(id=OTHER))),
    "an unanswered enqueue made two": (2, asked(Asked(JOB, "quick"), jobs=[done(), done()])),
    "a claim is settled twice": (3, moves(claimed, move(3, RUNNING, READY, 1), move(4, RUNNING, GONE, 1))),
    "a stale claim completed it": (3, jobs(done(epoch=2, result={"epoch": 1}))),
    "a stranger completed it": (3, jobs(done(worker_id=STRANGER))),
    "an epoch is given again": (4, moves(claimed, move(3, RUNNING, READY, 1), move(4, READY, RUNNING, 1))),
    "a job is claimed while it is held": (5, moves(claimed, move(3, RUNNING, RUNNING, 2))),
    "a job is taken before its lease ends": (
        5,
        moves(claimed, move(3, RUNNING, READY, 1, outcome="crashed", lease=AT + timedelta(hours=1))),
    ),
    "an effect is missing": (6, jobs(done(task="effect"))),
    "an effect happened twice": (6, jobs(done(task="effect"), effects=[(JOB, 1), (JOB, 1)])),
    "an effect is there for a dead job": (6, jobs(done(task="effect", state="dead"), effects=[(JOB, 1)])),
    "a job started too often": (7, runs(Run(JOB, 1, 6, 7, 1.0, 2.0))),
    "a claim started in two places": (8, runs(Run(JOB, 1, 1, 7, 1.0), Run(JOB, 1, 1, 8, 1.0))),
    "a job started again with nobody's loss": (8, runs(Run(JOB, 1, 1, 7, 1.0), Run(JOB, 2, 1, 8, 1.0))),
    "a job was lost with no fault": (
        8,
        jobs(done(epoch=2, result=None, attempts=[crashed(1)]), ownership_losses=False),
    ),
    "a job that was over came back": (9, moves(claimed, move(3, RUNNING, GONE, 1), move(4, None, READY, 0))),
    "a process ran too much at once": (
        10,
        runs(Run(JOB, 1, 1, 7, 1.0, 3.0), Run(OTHER, 1, 1, 7, 2.0, 4.0), slots=1),
    ),
    "a limit has too many holders": (
        10,
        has(moves=[claimed, move(3, READY, RUNNING, 1, job=OTHER)], limits={"quick": 1}),
    ),
    "a job is held in the end": (10, jobs(done(state="running", result=None))),
    "a key has two live rows": (
        11,
        moves(move(1, None, READY, 0, dedup_key="k"), move(2, None, READY, 0, dedup_key="k", job=OTHER)),
    ),
    "a slot made two jobs": (12, jobs(done(), tick(1), tick(1), tick(2))),
    "a slot was left out": (12, jobs(done(), tick(1), tick(3))),
    "the line did not drain": (13, has(drained=False)),
    "a count is wrong": (14, has(shown={"completed": 2})),
    "a deadlock was seen": (15, has(deadlocks=1)),
    "a producer was told of a deadlock": (15, asked(Asked(JOB, "quick", JOB, refusals=["40P01"]))),
    "a history has a gap": (16, jobs(done(epoch=3, result=None, attempts=[crashed(1)]))),
    "a job died of nothing": (16, jobs(done(state="dead", result=None, attempts=[crashed(1, "released")]))),
}


def test_nothing_is_found_in_a_sound_run() -> None:
    assert broken(sound()) == {}


@pytest.mark.parametrize("name", FORGED)
def test_a_checker_finds_what_it_is_for(name: str) -> None:
    number, forge = FORGED[name]
    seen = sound()
    forge(seen)
    assert broken(seen).get(number), name


def test_every_invariant_has_evidence_against_it() -> None:
    assert {number for number, _ in FORGED.values()} == INVARIANTS.keys() == set(range(1, 17))
