"""`app.schedules`: make, change, pause, resume, run, remove and list schedules while workers run."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol, Unpack, cast
from uuid import UUID

from wakeful.config import Settings
from wakeful.database.session import Database
from wakeful.schedule.declare import (
    Declared,
    ScheduleOptions,
    declared,
    interval,
    job_of,
    job_options,
    misfire_policy,
    payload_text,
)
from wakeful.statements import schedules as statements
from wakeful.task import Task
from wakeful.tend.cron import cron_line, fault_in, time_zone
from wakeful.tend.slots import next_slot
from wakeful.values.duration import DurationLike
from wakeful.values.errors import InvalidOption, Refused
from wakeful.values.number import whole_number
from wakeful.values.schedule import Declaration, ScheduleReport

Reports = list[ScheduleReport]
Listed = list[tuple[ScheduleReport, datetime, datetime]]


class App(Protocol):
    """What schedules need of an app."""

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def database(self) -> Database: ...


class Schedules:
    """An app's schedules. Every verb has two forms, `pause` and `apause`, that do the same.

    `actor` is who is noted to have done it; the database's user if left out.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._declared: dict[str, Declared] = {}
        self.declared: Mapping[str, Declared] = MappingProxyType(self._declared)

    def declare(self, one: Declared) -> None:
        """Keep what `@app.schedule` says; workers store it when they start."""
        there = self._declared.get(one.name)
        if there is not None and (there.timing, there.job.task) != (one.timing, one.job.task):
            raise InvalidOption("name", message=f"Schedule {one.name} is declared twice: give one of them a name=.")
        self._declared[one.name] = one

    def declarations(self) -> list[Declaration]:
        """All that code declares, as it is stored."""
        limit = self._app.settings.produce.payload_limit
        return [one.declaration(limit) for one in self._declared.values()]

    def add(
        self,
        name: str,
        task: Task[..., Any] | str,
        cron: str | None = None,
        *,
        every: DurationLike | None = None,
        tz: str = "UTC",
        payload: Mapping[str, Any] | None = None,
        misfire: str = "latest",
        cap: int = 100,
        actor: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """Make a schedule; Refused when there is one of this name."""
        asked = self._asked(name, task, cron, every, tz, payload, misfire, cap, options)
        self._app.database.run(statements.add(asked, actor))

    async def aadd(
        self,
        name: str,
        task: Task[..., Any] | str,
        cron: str | None = None,
        *,
        every: DurationLike | None = None,
        tz: str = "UTC",
        payload: Mapping[str, Any] | None = None,
        misfire: str = "latest",
        cap: int = 100,
        actor: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """As `add`, awaited."""
        asked = self._asked(name, task, cron, every, tz, payload, misfire, cap, options)
        await self._app.database.arun(statements.add(asked, actor))

    def change(self, name: str, *, actor: str | None = None, **changes: Any) -> None:
        """Change what is named: task, cron or every, tz, payload, misfire, cap, options of its jobs. None: as it is."""
        found = self._app.database.run(statements.listed())
        self._app.database.run(statements.change(name, self._changes(name, found, changes), actor))

    async def achange(self, name: str, *, actor: str | None = None, **changes: Any) -> None:
        """As `change`, awaited."""
        found = await self._app.database.arun(statements.listed())
        await self._app.database.arun(statements.change(name, self._changes(name, found, changes), actor))

    def remove(self, name: str, *, actor: str | None = None) -> None:
        """Take it away. One that code declares comes back when a worker starts that still declares it."""
        self._app.database.run(statements.remove(name, actor))

    async def aremove(self, name: str, *, actor: str | None = None) -> None:
        """As `remove`, awaited."""
        await self._app.database.arun(statements.remove(name, actor))

    def pause(self, name: str, *, reason: str | None = None, actor: str | None = None) -> bool:
        """Make no more jobs until it is resumed; False when it was paused already."""
        return self._app.database.run(statements.pause(name, actor, reason))

    async def apause(self, name: str, *, reason: str | None = None, actor: str | None = None) -> bool:
        """As `pause`, awaited."""
        return await self._app.database.arun(statements.pause(name, actor, reason))

    def resume(self, name: str, *, reason: str | None = None, actor: str | None = None) -> bool:
        """Go on with the next slot, making up for none; False when it was not paused."""
        return self._app.database.run(statements.resume(name, actor, reason))

    async def aresume(self, name: str, *, reason: str | None = None, actor: str | None = None) -> bool:
        """As `resume`, awaited."""
        return await self._app.database.arun(statements.resume(name, actor, reason))

    def run_now(self, name: str, *, actor: str | None = None) -> UUID | None:
        """Make a job now, beside its slots; None when enqueuing of its task is off."""
        return self._app.database.run(statements.run_now(name, actor))

    async def arun_now(self, name: str, *, actor: str | None = None) -> UUID | None:
        """As `run_now`, awaited."""
        return await self._app.database.arun(statements.run_now(name, actor))

    def list(self) -> Reports:
        """All schedules by name, those of code and those made at run time."""
        return with_next_slots(self._app.database.run(statements.listed()))

    async def alist(self) -> Reports:
        """As `list`, awaited."""
        return with_next_slots(await self._app.database.arun(statements.listed()))

    def _asked(
        self,
        name: str,
        task: Task[..., Any] | str,
        cron: str | None,
        every: DurationLike | None,
        tz: str,
        payload: Mapping[str, Any] | None,
        misfire: str,
        cap: int,
        options: ScheduleOptions,
    ) -> Declaration:
        known = self._app.tasks.get(task, task) if isinstance(task, str) else task
        asked = declared(
            known,
            name,
            cron=cron,
            every=every,
            tz=tz,
            payload=payload,
            misfire=misfire,
            cap=cap,
            options=options,
        )
        return asked.declaration(self._app.settings.produce.payload_limit)

    def _changes(self, name: str, found: Listed, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The changes as they are stored, checked against the task that the schedule has, or is to have."""
        old = next((report for report, *_ in found if report.name == name), None)
        if old is None:
            raise Refused(f"There is no schedule {name}. List them with `wakeful schedules list`.")
        rest = {key: value for key, value in changes.items() if value is not None}
        asked = rest.pop("task", old.task)
        task = self._app.tasks.get(asked, asked) if isinstance(asked, str) else asked
        readers: dict[str, Callable[[Any], object]] = {
            "cron": cron_line,
            "tz": time_zone,
            "misfire": misfire_policy,
            "cap": lambda value: whole_number(value, "cap", 1, 1000),
            "every": lambda value: statements.every_text(interval(value)),
        }
        made = {key: read(rest.pop(key)) for key, read in readers.items() if key in rest}
        if "cron" in made and "every" in made:
            raise InvalidOption("every", "is given beside cron: give one of them.")
        payload = rest.pop("payload", old.payload)
        job = job_of(task, cast(ScheduleOptions, rest))
        text = payload_text(task, payload, self._app.settings.produce.payload_limit)
        given = {key: value for key, value in job_options(job).items() if key in rest}
        if told := rest.keys() & {"metadata", "tags"}:
            given["metadata"] = _metadata(old.options.get("metadata", {}), job_options(job).get("metadata", {}), told)
        return {
            **made,
            **({"task": job.task} if "task" in changes else {}),
            **({"queue": job.queue} if "queue" in rest else {}),
            **({"payload": json.loads(text)} if "payload" in changes else {}),
            **({"options": given} if given else {}),
        }


def _metadata(old: Mapping[str, Any], new: object, told: Collection[str]) -> dict[str, Any]:
    """Tags are kept among the metadata, but are told apart: what is not told stays as it was."""
    kept = {key: value for key, value in old.items() if ("tags" if key == "tags" else "metadata") not in told}
    return {**kept, **cast(Mapping[str, Any], new)}


def with_next_slots(found: Listed) -> Reports:
    """The reports, with the slots to come of those that no worker has computed yet."""
    return [
        report
        if report.next_at is not None or report.paused or not is_readable(report)
        else replace(report, next_at=next_slot(_timing(report), anchor, now))
        for report, anchor, now in found
    ]


def is_readable(report: ScheduleReport) -> bool:
    """Whether its slots can be computed here."""
    return fault_in(_timing(report)) is None


def _timing(report: ScheduleReport) -> Any:
    return statements.timing_of(report.cron, report.every, report.tz)
