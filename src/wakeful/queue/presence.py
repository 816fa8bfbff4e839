"""What one process has to do with a queue: its worker id, the jobs it holds, and the two threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from uuid import UUID

from wakeful.config import DatabaseSettings
from wakeful.database.session import Database
from wakeful.database.threaded_ear import ThreadedEar
from wakeful.queue.claimed import ClaimedJob
from wakeful.queue.renewal import Renewal
from wakeful.queue.watch import Watch
from wakeful.statements.fleet import BROADCAST, channel_of
from wakeful.values.errors import InvalidOption, Refused
from wakeful.values.identity import new_id
from wakeful.values.job import Job
from wakeful.values.wording import shown

SWEEP_AT_LEAST: Final = 1000


class Presence:
    """The holder of claims, under a worker id that no other process has, not even a forked child."""

    def __init__(self, database: Database, settings: DatabaseSettings) -> None:
        self.pid = os.getpid()
        self.worker_id = new_id()
        self._database = database
        self._listen_dsn = settings.listen_dsn
        self.watch = Watch(self.worker_id, self._open_ear if settings.notify else None, database.run)
        self._renewal = Renewal(self.worker_id, database.run)
        self._lock = threading.Lock()
        self._held: dict[UUID, tuple[ClaimedJob, float]] = {}
        self._sweep_at = SWEEP_AT_LEAST

    def hold(self, claims: Iterable[Job], lease: timedelta, renew: bool, since: float) -> list[ClaimedJob]:
        """The claimed jobs, held from now on. `since`: when they were asked for, on the monotonic clock."""
        jobs = [ClaimedJob(claim, lease, renew) for claim in claims]
        with self._lock:
            if len(self._held) > self._sweep_at:
                self._sweep(since)
            lapses = since + lease.total_seconds()
            self._held.update((job.id, (job, lapses)) for job in jobs)
        if renew:
            self._renewal.hold(jobs, since)
        return jobs

    def claimed(self, job: ClaimedJob | UUID | str) -> ClaimedJob:
        """The job that is meant; a bare id only if it was claimed here and is not settled."""
        if isinstance(job, ClaimedJob):
            return job
        id = as_id(job)
        with self._lock:
            held = self._held.get(id)
        if held is None:
            raise Refused(
                f"Job {id} is not held by this queue, so its id alone settles nothing. "
                "Pass the job that `claim` gave you, in the process that claimed it.",
                job_id=id,
            )
        return held[0]

    def extended(self, job: ClaimedJob, lease: timedelta, since: float) -> None:
        """The job has a lease of this length since then."""
        job.lease = lease
        with self._lock:
            if job.id in self._held:
                self._held[job.id] = (job, since + lease.total_seconds())
        if job.renewed and not job.lost:
            self._renewal.hold([job], since)

    def let_go(self, job: ClaimedJob) -> None:
        """It is settled, or lost."""
        with self._lock:
            if (held := self._held.get(job.id)) is not None and held[0].epoch == job.epoch:
                del self._held[job.id]
        self._renewal.let_go(job.id)

    def close(self) -> None:
        """End both threads. Jobs that are still held come back when their leases lapse."""
        self.watch.close()
        self._renewal.close()

    def _sweep(self, now: float) -> None:
        """Forget those that nobody renewed or settled in time."""
        self._held = {id: held for id, held in self._held.items() if held[0].renewed or held[1] > now}
        self._sweep_at = max(SWEEP_AT_LEAST, 2 * len(self._held))

    def _open_ear(self) -> ThreadedEar:
        return ThreadedEar(self._listen_dsn or self._database.dsn, [BROADCAST, channel_of(self.worker_id)])


def as_id(value: object) -> UUID:
    """The id that is meant."""
    try:
        return value if isinstance(value, UUID) else UUID(str(value))
    except ValueError:
        raise InvalidOption("job", f"is {shown(value)}: pass a claimed job, or its id.") from None
