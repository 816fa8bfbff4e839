"""The scripts that end or prolong a claim, all through the fence."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from wakeful.database.session import Unanswered
from wakeful.payload import encode_result, sanitise, sanitise_json
from wakeful.queue.claimed import ClaimedJob
from wakeful.queue.presence import Presence
from wakeful.queue.script import Script, Sleep
from wakeful.run.describe import CODE_BYTES, MESSAGE_BYTES
from wakeful.run.failure import failed as failure_of
from wakeful.run.redact import secrets_in, without, without_in
from wakeful.settle.decide import decide
from wakeful.statements import settle as fenced
from wakeful.values.duration import DurationLike, duration, nonnegative_duration
from wakeful.values.errors import InvalidOption, PayloadError, Refused, StaleClaim
from wakeful.values.failing import Failing
from wakeful.values.outcome import AttemptError, Done, Failed, Outcome, Released, Snoozed
from wakeful.values.retry import RetryPolicy
from wakeful.values.settlement import Completion, Refusal
from wakeful.values.wording import shown

TRIES_ON_A_LOCKED_ROW: Final = 20


def end(here: Presence, job: ClaimedJob, outcome: Outcome, policy: RetryPolicy) -> Script[None]:
    """Settle the job; StaleClaim when the fence refuses."""
    settlement = decide(job.claim, outcome, policy)
    assert settlement is not None
    statement = (
        fenced.complete(job.worker_id, [settlement])
        if isinstance(settlement, Completion)
        else fenced.settle(job.worker_id, [settlement])
    )
    refusals: list[Refusal]
    try:
        refusals = yield statement
    except Unanswered:
        # Perhaps only the answer is lost. Then this very claim has settled it, which is what we want.
        again: list[Refusal] = yield statement
        refusals = [refusal for refusal in again if refusal.reason != "settled"]
    here.let_go(job)
    if refusals:
        job.lost = job.lost or refusals[0].reason == "stale"
        raise StaleClaim(job.id)


def extend(here: Presence, job: ClaimedJob, lease: DurationLike | None) -> Script[None]:
    """Give the job a lease from now on; StaleClaim when the fence refuses."""
    span = job.lease if lease is None else duration(lease, "lease")
    if span <= timedelta(0):
        raise InvalidOption("lease", f"is {shown(lease)}: give more than zero, such as '5m'.")
    for _ in range(TRIES_ON_A_LOCKED_ROW):
        since = time.monotonic()
        refusals: list[Refusal] = yield fenced.extend(job.worker_id, [(job.id, job.epoch)], span)
        if not refusals:
            here.extended(job, span, since)
            return
        if refusals[0].reason != "locked":
            here.let_go(job)
            job.lost = job.lost or refusals[0].reason == "stale"
            raise StaleClaim(job.id)
        yield Sleep(None, 0.05)
    raise Refused(
        f"Job {job.id} is locked by another transaction, so its lease is as it was. Try again.", job_id=job.id
    )


def done(result: object) -> Done:
    """The outcome of a job that is done. A result that cannot be stored is stored as near to it as can be."""
    try:
        return Done(encode_result(result))
    except PayloadError:
        return Done(sanitise_json(result))


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as it is told: an exception, a message, or a code and a message."""

    error: BaseException | str | tuple[str, str] | None
    retry: bool
    code: str | None
    message: str | None
    details: Mapping[str, object] | None
    retry_in: DurationLike | None

    def outcome(self, payload: str, failing: Failing) -> Failed:
        """What it comes to for a job with this payload, by what its task says of failures."""
        secrets = secrets_in(payload, failing.redact)
        told = self._told(failing, secrets)
        kept = AttemptError(
            sanitise(without(self.code or told.error.code or "failed", secrets), CODE_BYTES),
            sanitise(without(self.message or told.error.message, secrets), MESSAGE_BYTES),
            told.error.details if self.details is None else sanitise_json(without_in(self.details, secrets)),
        )
        wait = told.retry_in if self.retry_in is None else nonnegative_duration(self.retry_in, "retry_in")
        return replace(told, error=kept, retry_in=wait, final=told.final or not self.retry)

    def _told(self, failing: Failing, secrets: Sequence[str]) -> Failed:
        match self.error:
            case BaseException() as error:
                return failure_of(error, failing, secrets)
            case str(text):
                return Failed(AttemptError("failed", text))
            case (str(own), str(text)):
                return Failed(AttemptError(own, text))
            case None if self.code or self.message:
                return Failed(AttemptError("failed", ""))
        raise InvalidOption(
            "error", f"is {shown(self.error)}: give an exception, a message, or a pair of code and message."
        )


def snoozed(delay: DurationLike, reason: str | None) -> Snoozed:
    """The outcome of an attempt that shall be made later."""
    wait = nonnegative_duration(delay, "delay")
    return Snoozed(wait, None if reason is None else sanitise(reason, MESSAGE_BYTES))


def released() -> Released:
    """The outcome of a job that is given back unharmed."""
    return Released()
