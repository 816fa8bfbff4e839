"""A slot makes one job, whoever fires it and however often."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from tests.effort import times
from tests.races.rounds import Arena, by
from tests.sessions import Session, call, query, scalar, value

ROUNDS = times(1500)


def fire(conn: Session, slot: datetime, last: datetime | None, revision: int = 1) -> str:
    """Hand in a slot that was computed from what was last; the one after it is due at once."""
    firing = {
        "name": "s",
        "revision": revision,
        "last_slot": last and last.isoformat(),
        "slots": [slot.isoformat()],
        "next_slot": slot.isoformat(),
    }
    [answer] = call(conn, "fire_1", firings=Jsonb([firing]))
    return str(answer["answer"])


def schedule(db: Session) -> datetime:
    call(db, "add_schedule", name="s", task="t", every="1 second")
    began = scalar(db, "select wakeful.now() - interval '1 day'")
    assert isinstance(began, datetime)
    return began


def slots_of_jobs(db: Session) -> list[Any]:
    return [row["slot"] for row in query(db, "select metadata ->> 'slot' as slot from wakeful.job order by run_at")]


def test_of_three_workers_who_fire_a_slot_one_makes_its_job(db: Session, arena: Arena) -> None:
    began, last = schedule(db), None
    for number in range(ROUNDS):
        slot = began + timedelta(seconds=number)
        answers = arena.race(*[by(fire, slot, last)] * 3)
        assert sorted(answers) == ["fired", "lost", "lost"]
        last = slot
    made = slots_of_jobs(db)
    assert len(made) == len(set(made)) == ROUNDS


def test_a_slot_that_is_fired_while_someone_pauses_is_made_or_not_but_never_afterwards(
    db: Session, arena: Arena
) -> None:
    began = schedule(db)
    for number in range(times(300)):
        [there] = query(db, "select last_slot, revision from wakeful.schedule")
        slot = began + timedelta(seconds=number)
        before = len(slots_of_jobs(db))
        fired, paused = arena.race(
            by(fire, slot, there["last_slot"], there["revision"]), by(value, "pause_schedule", name="s")
        )
        assert paused is True
        assert len(slots_of_jobs(db)) - before == (fired == "fired")
        assert fire(db, slot + timedelta(milliseconds=1), slot, there["revision"] + 1) == "lost"
        value(db, "resume_schedule", name="s")


def test_workers_who_declare_at_the_same_time_agree(db: Session, arena: Arena) -> None:
    def declare(conn: Session, digest: str) -> str:
        definition = {
            **{"name": "s", "task": "t", "queue": None, "payload": {}, "options": {}, "every": "1 hour"},
            **{"tz": "UTC", "misfire": "latest", "cap": 1, "version": 0, "digest": digest},
        }
        [answer] = call(conn, "declare_schedules_1", definitions=Jsonb([definition]))
        return str(answer["answer"])

    for number in range(times(200)):
        answers = arena.race(*[by(declare, f"d{number}")] * 3)
        assert sorted(answers) in (["new", "same", "same"], ["changed", "same", "same"])
