"""What becomes of a job, given how its attempt went."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import assert_never

from wakeful.values.job import Job
from wakeful.values.outcome import Cancelled, Done, Failed, Gone, Outcome, Released, Snoozed
from wakeful.values.retry import DEFAULT_RETRY, RetryPolicy
from wakeful.values.retry_json import policy_in
from wakeful.values.settlement import Completion, Ending, Settlement

log = logging.getLogger("wakeful.settle")


def decide(job: Job, outcome: Outcome, policy: RetryPolicy) -> Settlement | None:
    """The settlement of one attempt; None when there is nothing to settle."""
    # Before the match, which takes its time: nearly all jobs end here.
    if isinstance(outcome, Done):
        return Completion(job.key, job.epoch, outcome.result)
    match outcome:
        case Failed(error, asked, final, own, fault):
            retry_in = None if final else wait_before_next(job, asked, own or policy_of(job) or policy)
            return Ending(job.id, job.epoch, "failed", error.code, error.message, error.details, retry_in, fault)
        case Snoozed(delay, reason):
            return Ending(job.id, job.epoch, "snoozed", message=reason, retry_in=delay)
        case Cancelled(reason):
            return Ending(job.id, job.epoch, "cancelled", message=reason)
        case Released():
            return Ending(job.id, job.epoch, "released", retry_in=timedelta(0))
        case Gone():
            return None
        case _:
            assert_never(outcome)


def policy_of(job: Job) -> RetryPolicy | None:
    """The retry policy that this one job was enqueued with; None for its task's."""
    return None if job.metadata is None or '"retry"' not in job.metadata else policy_in(job.metadata)


def wait_before_next(job: Job, asked: timedelta | None, policy: RetryPolicy) -> timedelta | None:
    """The wait before the next start; None when there is none."""
    if job.attempt >= job.max_attempts:
        return None
    if asked is not None:
        return asked
    try:
        return policy.delay(job.attempt)
    # A policy may be the user's own function, which may raise anything: the job is not lost over it.
    except Exception:
        log.exception(
            "retry_policy_failed: job %s waits as by default.",
            job.id,
            extra={"event": "retry_policy_failed", "job_id": str(job.id), "task": job.task},
        )
        return DEFAULT_RETRY.delay(job.attempt)
