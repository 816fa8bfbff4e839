"""Sentry, by the conventions of its own SDK for queues: errors with the job's tags, and a transaction a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import sentry_sdk

from wakeful.observe.observer import Observer, Tell
from wakeful.values.job import Job
from wakeful.values.outcome import Failed, Outcome

CARRIED: Final = ("sentry-trace", "baggage")


def is_set_up() -> bool:
    """Whether this process sends anything to Sentry."""
    return sentry_sdk.is_initialized()


class Sentry(Observer):
    """Captures what handlers raise, and continues the trace of who enqueued."""

    everything = False

    @contextmanager
    def sending(self, task: str, queue: str | None, count: int) -> Iterator[Mapping[str, str]]:
        """A `queue.publish` span; its trace travels with the jobs."""
        with sentry_sdk.start_span(op="queue.publish", name=task) as span:
            span.set_data("messaging.destination.name", queue or "default")
            carried = {CARRIED[0]: sentry_sdk.get_traceparent(), CARRIED[1]: sentry_sdk.get_baggage()}
            yield {name: value for name, value in carried.items() if value}

    @contextmanager
    def around(self, jobs: Sequence[Job]) -> Iterator[Tell]:
        """A `queue.process` transaction, in a scope of its own."""
        job = jobs[0]
        with sentry_sdk.isolation_scope() as scope:
            scope.set_tag("wakeful.task", job.task)
            scope.set_tag("wakeful.job_id", str(job.id))
            scope.set_tag("wakeful.correlation_id", str(job.correlation_id))
            scope.set_context("wakeful", {"queue": job.queue, "attempt": job.attempt, "jobs": len(jobs)})
            begun = sentry_sdk.continue_trace(_carried(job), op="queue.process", name=job.task, source="task")
            with sentry_sdk.start_transaction(begun) as transaction:
                transaction.set_data("messaging.message.id", str(job.id))
                transaction.set_data("messaging.destination.name", job.queue)
                transaction.set_data("messaging.message.retry.count", job.attempt - 1)

                def tell(outcomes: Sequence[Outcome]) -> None:
                    failed = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
                    transaction.set_status("internal_error" if failed else "ok")
                    for outcome in failed:
                        if outcome.cause is not None:
                            sentry_sdk.capture_exception(outcome.cause)

                yield tell


def _carried(job: Job) -> dict[str, str]:
    if job.metadata is None or CARRIED[0] not in job.metadata:
        return {}
    told = json.loads(job.metadata)
    return {name: told[name] for name in CARRIED if isinstance(told.get(name), str)}
