"""The log of the work: a line for each claim and each attempt that is over, and one when nothing is left to do."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from wakeful.observe.json_lines import JsonLines, uuid_text
from wakeful.observe.observer import Observer
from wakeful.values.job import Job
from wakeful.values.run import CompletedRuns, Run, RunOutcome

log = logging.getLogger("wakeful.worker")

Event = dict[str, Any]
Fields = Callable[[str], Mapping[str, object] | None]
"""The fields of a payload, JSON text, that are to be seen."""
WriteLines = Callable[[int, str, Iterable[str]], None]
"""Takes the level, the event, and JSON objects without their braces and without what all lines have in common."""

_LEVELS: Final[Mapping[RunOutcome, int]] = {"failed": logging.WARNING, "dead": logging.ERROR, "lost": logging.WARNING}
_FOUND_AGAIN: Final = ('"outcome": "crashed"', '"outcome": "lapsed"')


class RunLog(Observer):
    """Logs by `wakeful.worker`. Where the only handler is ours, sets of lines are written in one go."""

    def __init__(self, fields: Mapping[str, Fields] | None = None) -> None:
        """`fields`: of tasks whose lines show some of the payload, what is to be seen of one."""
        self.everything = log.isEnabledFor(logging.INFO)
        self._fields = fields or {}
        self._lines = JsonLines()

    def started(self, worker_id: UUID) -> None:
        """Lines tell the worker's id."""
        self._lines.begin_anew()

    def claimed(self, jobs: Sequence[Job]) -> None:
        """`job_claimed` for each, `job_rescued` for those that another worker lost."""
        if not log.isEnabledFor(logging.INFO):
            return
        if (write := bulk_writer()) is not None:
            lines = self._lines.claimed(jobs)
            write(logging.INFO, "job_claimed", lines if not self._fields else self._detailed(lines, jobs))
        else:
            for job in jobs:
                _log(logging.INFO, self._claimed(job))
        for job in jobs:
            if job.attempts is not None and is_rescued(job.attempts):
                _log(logging.WARNING, {**self._claimed(job), "event": "job_rescued"})

    def _claimed(self, job: Job) -> Event:
        return {**self._of_payload(job), **claimed_event(job)}

    def _detailed(self, lines: Iterable[str], jobs: Sequence[Job]) -> Iterator[str]:
        for line, job in zip(lines, jobs, strict=True):
            fields = self._of_payload(job)
            yield f"{line},{json.dumps(fields, ensure_ascii=False)[1:-1]}" if fields else line

    def _of_payload(self, job: Job) -> Mapping[str, object]:
        read = self._fields.get(job.task)
        return (read(job.payload) if read is not None else None) or {}

    def completed(self, runs: CompletedRuns) -> None:
        """`job_completed` for each."""
        if not log.isEnabledFor(logging.INFO):
            return
        if (write := bulk_writer()) is not None:
            write(logging.INFO, "job_completed", self._lines.completed(runs))
        else:
            super().completed(runs)

    def ended(self, runs: Sequence[Run]) -> None:
        """`job_completed`, `job_failed`, `job_dead`, `job_snoozed`, `job_cancelled`, `job_released` or `lease_lost`."""
        for run in runs:
            self._lines.forget(run.job)
            for level, event in run_events(run):
                if log.isEnabledFor(level):
                    _log(level, event)

    def rested(self, counts: Mapping[str, int], counters: Mapping[str, float]) -> None:
        """`batch_completed`."""
        if log.isEnabledFor(logging.INFO):
            _log(logging.INFO, batch_event(counts, counters))


def run_events(run: Run) -> Iterator[tuple[int, Event]]:
    """A final failure is two events: the attempt failed, and the job is dead."""
    event = run_event(run)
    if run.outcome == "dead":
        yield logging.WARNING, {**event, "event": "job_failed"}
    yield _LEVELS.get(run.outcome, logging.INFO), event


def run_event(run: Run) -> Event:
    """What is told of an attempt."""
    job = run.job
    event: Event = {
        "event": "lease_lost" if run.outcome == "lost" else f"job_{run.outcome}",
        "job_id": uuid_text(job.key),
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempt,
        "worker_id": job.worker_id,
        "correlation_id": uuid_text(job.correlation_key),
        "duration_ms": round(run.seconds * 1000, 3),
        "queue_time_ms": round(run.queue_seconds * 1000, 3),
    }
    if job.tenant is not None:
        event["tenant"] = job.tenant
    if run.outcome in ("failed", "dead"):
        event |= {"error_code": run.error_code, "error": run.message, "will_retry": run.outcome == "failed"}
    if run.retry_in is not None and run.outcome != "released":
        event["retry_in_ms"] = round(run.retry_in * 1000)
    if run.counters:
        event["counters"] = dict(run.counters)
    return event if run.fields is None else {**run.fields, **event}


def claimed_event(job: Job) -> Event:
    """What is told of a claim."""
    event: Event = {
        "event": "job_claimed",
        "job_id": uuid_text(job.key),
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempt,
        "worker_id": job.worker_id,
        "correlation_id": uuid_text(job.correlation_key),
    }
    if job.tenant is not None:
        event["tenant"] = job.tenant
    return event


def batch_event(counts: Mapping[str, int], counters: Mapping[str, float]) -> Event:
    """What is told of everything since the last rest."""
    failed = counts.get("failed", 0) + counts.get("dead", 0)
    return {
        "event": "batch_completed",
        "processed": sum(number for outcome, number in counts.items() if outcome != "released"),
        "succeeded": counts.get("completed", 0),
        "failed": failed,
        "counts": dict(counts),
        "counters": dict(counters),
    }


def is_rescued(attempts: str) -> bool:
    """Whether the last attempt in a history (JSON text) was taken from a worker that was gone."""
    last = attempts[attempts.rfind('"outcome"') :]
    return last.startswith(_FOUND_AGAIN)


def bulk_writer() -> WriteLines | None:
    """The one handler that would get our lines, if it can take them as a set; None where lines must be records."""
    root = logging.getLogger()
    if len(root.handlers) != 1 or any(one.handlers or one.filters or not one.propagate for one in _between(log)):
        return None
    [handler] = root.handlers
    if handler.level > logging.INFO:
        return None
    write: WriteLines | None = getattr(handler, "write_lines", None)
    return write


def _between(logger: logging.Logger) -> Iterator[logging.Logger]:
    while logger.parent is not None:
        yield logger
        logger = logger.parent


def _log(level: int, event: Event) -> None:
    told = {name: str(value) if isinstance(value, UUID) else value for name, value in event.items()}
    log.log(level, "%s", sentence(event), extra=told)


def sentence(event: Event) -> str:
    """The line for people: the event, and what is most wanted of it."""
    name = event["event"]
    if "error_code" in event:
        again = f"; again in {event['retry_in_ms'] / 1000:g} s" if event.get("retry_in_ms") is not None else ""
        return f"{name}: {event['task']} failed with {event['error_code']}: {event['error']}{again}"
    return str(name)
