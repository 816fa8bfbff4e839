"""Schedules: declared by code, made and steered by hand, fired by workers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from wakeful.statements.statement import Row, Statement, first_value, nothing
from wakeful.values.schedule import Cron, Declaration, DueSchedule, Every, Fired, Firing, ScheduleReport, Timing

_LIST = """
select name, task, cron, every, tz, paused, next_at, last_slot, last_job_id, misfire, cap, queue, payload::text,
 options::text, source, version, declared, created_at, changed_at, changed_by, reason, anchor, (select wakeful.now())
from wakeful.schedules order by name
"""

_ADD = """select wakeful.add_schedule(%(name)s::text, %(task)s::text, %(cron)s::text, %(every)s::interval,
 %(payload)s::jsonb, %(tz)s::text, %(misfire)s::text, %(cap)s::integer, %(queue)s::text, %(options)s::jsonb,
 %(actor)s::text)"""


def declare(declarations: Iterable[Declaration]) -> Statement[dict[str, str]]:
    """Store what code says; the answer to each: new, changed, same, older or taken."""
    return Statement(
        "select name, answer from wakeful.declare_schedules_1(%(definitions)s::jsonb)",
        {"definitions": json.dumps([{**_definition(one), "digest": digest(one)} for one in declarations])},
        lambda rows: {row[0]: row[1] for row in rows},
    )


def digest(declaration: Declaration) -> str:
    """Stands for a definition: the same for the same words, whoever says them."""
    text = json.dumps(_definition(declaration), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def fire(firings: Sequence[Firing]) -> Statement[list[Fired]]:
    """Take slots and make their jobs, each slot at most once whoever else fires it."""
    asked = [
        {
            "name": one.name,
            "revision": one.revision,
            "last_slot": _written(one.last_slot),
            "slots": [slot.isoformat() for slot in one.slots],
            "next_slot": _written(one.next_slot),
        }
        for one in firings
    ]
    return Statement(
        "select name, answer, job_id, jobs, problem from wakeful.fire_1(%(firings)s::jsonb)",
        {"firings": json.dumps(asked)},
        lambda rows: [Fired(*row) for row in rows],
    )


def add(declaration: Declaration, actor: str | None) -> Statement[None]:
    """Make a schedule at run time; Refused when there is one of this name."""
    line, every, tz = _timing(declaration.timing)
    params = {
        **{"name": declaration.name, "task": declaration.task, "cron": line, "every": every, "tz": tz},
        **{"payload": declaration.payload, "misfire": declaration.misfire, "cap": declaration.cap},
        **{"queue": declaration.queue, "options": declaration.options, "actor": actor},
    }
    return Statement(_ADD, params, nothing)


def change(name: str, changes: Mapping[str, Any], actor: str | None) -> Statement[None]:
    """Change what is named: task, queue, payload, options, cron, every (seconds), tz, misfire, cap."""
    return Statement(
        "select wakeful.change_schedule(%(name)s::text, %(changes)s::jsonb, %(actor)s::text)",
        {"name": name, "changes": json.dumps(changes), "actor": actor},
        nothing,
    )


def remove(name: str, actor: str | None) -> Statement[None]:
    """Take it away; what code declares comes back with the next worker that does."""
    return Statement(
        "select wakeful.remove_schedule(%(name)s::text, %(actor)s::text)", {"name": name, "actor": actor}, nothing
    )


def pause(name: str, actor: str | None, reason: str | None) -> Statement[bool]:
    """Fire no more; False when it was paused already."""
    return Statement(
        "select wakeful.pause_schedule(%(name)s::text, %(actor)s::text, %(reason)s::text)",
        {"name": name, "actor": actor, "reason": reason},
        first_value,
    )


def resume(name: str, actor: str | None, reason: str | None) -> Statement[bool]:
    """Go on with the next slot; False when it was not paused."""
    return Statement(
        "select wakeful.resume_schedule(%(name)s::text, %(actor)s::text, %(reason)s::text)",
        {"name": name, "actor": actor, "reason": reason},
        first_value,
    )


def run_now(name: str, actor: str | None) -> Statement[UUID | None]:
    """Make a job of it now, beside its slots; None when enqueuing of its task is off."""
    return Statement(
        "select wakeful.run_schedule(%(name)s::text, %(actor)s::text)", {"name": name, "actor": actor}, first_value
    )


def listed() -> Statement[list[tuple[ScheduleReport, datetime, datetime]]]:
    """All schedules by name, each with where its interval counts from, and the database's time."""
    return Statement(_LIST, {}, lambda rows: [_report(row) for row in rows])


def due_schedules(text: str) -> tuple[DueSchedule, ...]:
    """What a claim tells of schedules that are due."""
    return tuple(_due(told) for told in json.loads(text))


def timing_of(line: str | None, every: timedelta | None, tz: str) -> Timing:
    """The timing of a row."""
    return Cron(line, tz) if line is not None else Every(every or timedelta(0))


def _report(row: Row) -> tuple[ScheduleReport, datetime, datetime]:
    report = ScheduleReport(*(*row[:12], json.loads(row[12]), json.loads(row[13]), *row[14:21]))
    return report, row[21], row[22]


def _due(told: Mapping[str, Any]) -> DueSchedule:
    every = None if told["every"] is None else timedelta(microseconds=told["every"])
    last_slot = told["last_slot"]
    return DueSchedule(
        told["name"],
        timing_of(told["cron"], every, told["tz"]),
        told["misfire"],
        told["cap"],
        datetime.fromisoformat(told["anchor"]),
        datetime.fromisoformat(told["since"]),
        None if last_slot is None else datetime.fromisoformat(last_slot),
        told["revision"],
        datetime.fromisoformat(told["now"]),
    )


def _definition(one: Declaration) -> dict[str, Any]:
    line, every, tz = _timing(one.timing)
    return {
        **{"name": one.name, "task": one.task, "queue": one.queue, "payload": json.loads(one.payload)},
        **{"options": json.loads(one.options), "cron": line, "every": every and every_text(every), "tz": tz},
        **{"misfire": one.misfire, "cap": one.cap, "version": one.version},
    }


def every_text(interval: timedelta) -> str:
    """An interval as PostgreSQL reads it, without days, whose length depends on the zone."""
    return f"{interval // timedelta(microseconds=1)} microseconds"


def _timing(timing: Timing) -> tuple[str | None, timedelta | None, str]:
    match timing:
        case Cron(line, tz):
            return line, None, tz
        case Every(interval):
            return None, interval, "UTC"


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
