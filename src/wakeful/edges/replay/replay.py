"""One call of a handler with a stored payload, on the thread that asks."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wakeful.app import Wakeful
from wakeful.edges.replay.desk import DryDesk, DryProducer
from wakeful.run.attempt import Attempt, read_error, read_value
from wakeful.run.batch import read_item
from wakeful.run.context import Context, SyncContext
from wakeful.run.handler import Handler
from wakeful.values.current import current_job
from wakeful.values.errors import UnknownTask
from wakeful.values.identity import new_id
from wakeful.values.job import Job, JobReport, wire
from wakeful.values.outcome import Outcome
from wakeful.worker.build import handler_of


@dataclass(frozen=True, slots=True)
class Replayed:
    """How it went. `enqueued` are the tasks of jobs that it would have made, `error` what the handler raised."""

    outcome: Outcome
    seconds: float
    counters: Mapping[str, float]
    enqueued: tuple[str, ...]
    error: BaseException | None


def replay_here(app: Wakeful, report: JobReport) -> Replayed:
    """Run the job's handler with its payload. Blocks; no state of the queue is changed. UnknownTask without one."""
    if report.task not in app.tasks:
        raise UnknownTask(report.task, app.tasks)
    enqueued: list[str] = []
    desk = DryDesk(app.database, enqueued)
    app.__dict__["producer"] = DryProducer(app.settings, enqueued)
    job = claimed_again(report)
    handler = handler_of(app.tasks[report.task], app.settings.worker.timeout)
    running = Attempt(job, handler, 0.0)
    before, began = current_job.set(job), time.perf_counter()
    outcome, error = _called(running, _arguments(handler, running, desk))
    seconds = time.perf_counter() - began
    current_job.reset(before)
    return Replayed(outcome, seconds, running.take_notes().counters, tuple(enqueued), error)


def claimed_again(report: JobReport) -> Job:
    """The job as a worker would be given it. Nobody holds it under this worker id, so no fence lets it pass."""
    return Job(
        key=report.id.bytes,
        task=report.task,
        queue=report.queue,
        payload=json.dumps(report.payload),
        attempt=max(report.attempt, 1),
        max_attempts=report.max_attempts,
        epoch=report.epoch,
        rank=-report.priority,
        ready_wire=wire(report.ready_at or report.created_at),
        created_wire=wire(report.created_at),
        started_wire=wire(report.started_at or report.created_at),
        correlation_key=report.correlation_id.bytes,
        parent_key=None if report.parent_id is None else report.parent_id.bytes,
        origin_key=None if report.origin_id is None else report.origin_id.bytes,
        tenant=report.tenant,
        created_by=report.created_by,
        metadata=None if report.metadata is None else json.dumps(report.metadata),
        attempts=json.dumps(report.attempts) if report.attempts else None,
        saved=None,
        worker_id=new_id(),
    )


def _arguments(handler: Handler, running: Attempt, desk: DryDesk) -> dict[str, Any]:
    if handler.batch is not None:
        return {handler.list_parameter: [read_item(handler, running.job.payload)]}
    arguments: dict[str, Any] = handler.codec.decode(running.job.payload)
    if (name := handler.codec.context) is not None:
        arguments[name] = Context(running, desk) if handler.place == "loop" else SyncContext(running, desk)
    return arguments


def _called(running: Attempt, arguments: dict[str, Any]) -> tuple[Outcome, BaseException | None]:
    handler = running.handler
    try:
        value = handler.function(**arguments)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        if handler.batch is not None and isinstance(value, list | tuple) and len(value) == 1:
            [value] = value
        if isinstance(value, BaseException):
            return read_error(value, running), value
        return read_value(value), None
    # A user's handler may raise anything at all, and each of it is an outcome.
    except Exception as error:
        return read_error(error, running), error


async def _awaited(value: Any) -> object:
    return await value
