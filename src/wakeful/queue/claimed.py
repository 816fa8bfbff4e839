"""A claimed job as its holder sees it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from wakeful.values.job import Job


class ClaimedJob:
    """A job that this process holds, until it is settled or its lease is lost.

    `attempt` is the number of this start, from 1. `payload` is the decoded JSON object, yours to change.
    """

    __slots__ = ("claim", "lease", "lost", "payload", "renewed")

    def __init__(self, claim: Job, lease: timedelta, renewed: bool) -> None:
        self.claim = claim
        self.payload: dict[str, Any] = json.loads(claim.payload)
        self.lease = lease
        """How long it is held without being renewed."""
        self.renewed = renewed
        """Whether the lease is renewed in the background."""
        self.lost = False
        """True once it is known that somebody else may hold the job: drop what this attempt has done."""

    @property
    def id(self) -> UUID:
        return self.claim.id

    @property
    def task(self) -> str:
        return self.claim.task

    @property
    def queue(self) -> str:
        return self.claim.queue

    @property
    def priority(self) -> int:
        return self.claim.priority

    @property
    def attempt(self) -> int:
        return self.claim.attempt

    @property
    def max_attempts(self) -> int:
        return self.claim.max_attempts

    @property
    def epoch(self) -> int:
        """The number of this claim, which the fence compares."""
        return self.claim.epoch

    @property
    def worker_id(self) -> UUID:
        return self.claim.worker_id

    @property
    def tenant(self) -> str | None:
        return self.claim.tenant

    @property
    def correlation_id(self) -> UUID:
        return self.claim.correlation_id

    @property
    def parent_id(self) -> UUID | None:
        return self.claim.parent_id

    @property
    def created_by(self) -> str | None:
        return self.claim.created_by

    @property
    def created_at(self) -> datetime:
        return self.claim.created_at

    @property
    def started_at(self) -> datetime:
        return self.claim.started_at

    @property
    def metadata(self) -> dict[str, Any]:
        """Trace context, tags and whatever else travels beside the payload."""
        decoded: dict[str, Any] = json.loads(self.claim.metadata or "{}")
        return decoded

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """The earlier attempts, oldest first: when, by whom, and how each ended."""
        decoded: list[dict[str, Any]] = json.loads(self.claim.attempts or "[]")
        return decoded

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this job, and for the job it becomes when it is put back."""
        return str(self.metadata.get("idempotency_key") or self.id)

    def __repr__(self) -> str:
        lost = ", lost" if self.lost else ""
        return f"<ClaimedJob {self.task} {self.id}, attempt {self.attempt} of {self.max_attempts}{lost}>"
