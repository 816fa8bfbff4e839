"""What is logged of enqueuing."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from wakeful.values.job import JobId

_log: Final = logging.getLogger("wakeful.produce")


def report_enqueued(task: str, ids: Iterable[JobId | None]) -> None:
    """A line for each job, at DEBUG; what is switched off in the database is told at INFO."""
    debug = _log.isEnabledFor(logging.DEBUG)
    for id in ids:
        if id is None:
            report_off(task, "it is switched off in the database, or off until it is switched on there")
        elif debug:
            facts = {"event": "job_enqueued", "task": task, "job_id": str(id), "action": id.action}
            _log.debug("job_enqueued: %s of task %s (%s)", id, task, id.action, extra=facts)


def report_off(task: str, reason: str) -> None:
    """Nothing was enqueued, on purpose."""
    facts = {"event": "enqueue_off", "task": task, "reason": reason}
    _log.info("enqueue_off: no job of task %s was made: %s", task, reason, extra=facts)
