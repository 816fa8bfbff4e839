"""OpenTelemetry: `send` and `process` spans by the messaging conventions, joined by the context that jobs carry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from wakeful.observe.observer import Observer, Tell
from wakeful.values.job import Job
from wakeful.values.outcome import Failed, Outcome

SYSTEM: Final = "wakeful"
# A job that waited for its moment, or is tried again, begins a trace of its own, linked to the one that sent it.
DELAYED: Final = timedelta(seconds=1)


class Tracing(Observer):
    """Spans around enqueuing and around handlers. Without a tracer provider they cost little and go nowhere."""

    everything = False

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._given = tracer is not None
        self._tracer = tracer or trace.get_tracer("wakeful")

    @property
    def surrounds(self) -> bool:
        """Only where spans go anywhere: without a provider they would cost more than a short job."""
        return self._given or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)

    @contextmanager
    def sending(self, task: str, queue: str | None, count: int) -> Iterator[Mapping[str, str]]:
        """A `send` span; its context travels with the jobs."""
        with self._tracer.start_as_current_span(
            f"send {queue or 'default'}", kind=SpanKind.PRODUCER, attributes=_sent(task, queue or "default", count)
        ):
            carried: dict[str, str] = {}
            propagate.inject(carried)
            yield carried

    @contextmanager
    def around(self, jobs: Sequence[Job]) -> Iterator[Tell]:
        """A `process` span: the child of its sender's where it follows at once, else linked to it."""
        senders = [context for job in jobs if (context := carried_by(job)) is not None]
        follows = len(jobs) == 1 and len(senders) == 1 and jobs[0].ready_at - jobs[0].created_at <= DELAYED
        links = [] if follows else [Link(trace.get_current_span(context).get_span_context()) for context in senders]
        with self._tracer.start_as_current_span(
            f"process {jobs[0].queue}",
            context=senders[0] if follows else Context(),
            kind=SpanKind.CONSUMER,
            attributes=_processed(jobs),
            links=links,
        ) as span:
            yield lambda outcomes: _tell(span, outcomes)


def carried_by(job: Job) -> Context | None:
    """The context of the span that sent the job; None for one that carries none."""
    if job.metadata is None or "traceparent" not in job.metadata:
        return None
    carried = {name: value for name, value in json.loads(job.metadata).items() if isinstance(value, str)}
    context = propagate.extract(carried)
    return context if trace.get_current_span(context).get_span_context().is_valid else None


def _sent(task: str, queue: str, count: int) -> dict[str, str | int]:
    told: dict[str, str | int] = {**_common("send", queue), "wakeful.task": task}
    return {**told, "messaging.batch.message_count": count} if count != 1 else told


def _processed(jobs: Sequence[Job]) -> dict[str, str | int]:
    first = jobs[0]
    told: dict[str, str | int] = {**_common("process", first.queue), "wakeful.task": first.task}
    if len(jobs) > 1:
        return {**told, "messaging.batch.message_count": len(jobs)}
    return {
        **told,
        "messaging.message.id": str(first.id),
        "messaging.message.conversation_id": str(first.correlation_id),
        "wakeful.attempt": first.attempt,
    }


def _common(operation: str, queue: str) -> dict[str, str | int]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def _tell(span: Span, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, Failed):
            span.set_attribute("error.type", outcome.error.code)
            if outcome.cause is not None:
                span.record_exception(outcome.cause)
            span.set_status(Status(StatusCode.ERROR, outcome.error.message))
