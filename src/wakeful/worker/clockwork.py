"""The worker's part in schedules: it computes slots that are due, and hands them in."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from wakeful.database.line import AsyncLine
from wakeful.statements import schedules as statements
from wakeful.tend.cron import fault_in
from wakeful.tend.slots import firing
from wakeful.values.schedule import Declaration, DueSchedule, Fired, Firing

log = logging.getLogger("wakeful.worker")

UNREADABLE_FOR = timedelta(minutes=1)


class Clockwork:
    """Fires what a claim says is due. Any number of workers may do so: the table lets each slot through once."""

    def __init__(self, line: AsyncLine) -> None:
        self._line = line
        self._unreadable: set[tuple[str, int]] = set()
        self._waiting: set[str] = set()

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Store what this worker's code says, unless something newer is there."""
        if not declarations:
            return
        answers = await self._line.run(statements.declare(declarations))
        for name, answer in answers.items():
            if answer in ("older", "taken"):
                log.warning(
                    "schedule_kept: %s is kept as it is: %s.",
                    name,
                    "this definition was replaced by a newer one (a higher version= brings it back)"
                    if answer == "older"
                    else "it was made at run time (give the one in code another name=)",
                    extra={"event": "schedule_kept", "schedule": name, "answer": answer},
                )

    async def fire(self, due: Sequence[DueSchedule]) -> tuple[bool, bool]:
        """Hand in the slots of these schedules: whether there may be work to look for, and whether one is held up."""
        fired = await self._line.run(statements.fire([self._computed(one) for one in due]))
        for one in fired:
            self._tell(one)
        return any(one.answer != "busy" for one in fired), any(one.answer == "busy" for one in fired)

    def _computed(self, due: DueSchedule) -> Firing:
        try:
            return firing(due)
        # A line that someone wrote by hand in SQL, or a zone that this machine does not have: told once, others go on.
        except Exception as error:
            if (due.name, due.revision) not in self._unreadable:
                self._unreadable.add((due.name, due.revision))
                log.error(
                    "schedule_unreadable: %s: %s Change it with app.schedules.change.",
                    due.name,
                    fault_in(due.timing) or f"{error}.",
                    extra={"event": "schedule_unreadable", "schedule": due.name},
                )
            # Not due for a while: a hundred of those would hide all others.
            return Firing(due.name, due.revision, due.last_slot, (), due.now + UNREADABLE_FOR)

    def _tell(self, one: Fired) -> None:
        facts = {"schedule": one.name, "jobs": one.jobs, "job_id": str(one.job_id) if one.job_id else None}
        if one.answer == "busy":
            if one.problem and one.name not in self._waiting:
                self._waiting.add(one.name)
                log.warning(
                    "schedule_waits: %s waits for room: %s",
                    one.name,
                    one.problem,
                    extra={"event": "schedule_waits", **facts},
                )
            return
        self._waiting.discard(one.name)
        if one.answer == "failed":
            log.error(
                "schedule_failed: %s makes no job: %s",
                one.name,
                one.problem,
                extra={"event": "schedule_failed", **facts},
            )
        elif one.jobs:
            log.info("schedule_fired: %s", one.name, extra={"event": "schedule_fired", **facts})
