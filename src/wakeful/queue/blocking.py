"""The verbs that block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack
from uuid import UUID

from wakeful.produce.options import EnqueueOptions
from wakeful.queue import claiming, operating, settling
from wakeful.queue.claimed import ClaimedJob
from wakeful.queue.door import DEFAULT_LEASE, Door, Failure, JobRef, either
from wakeful.queue.script import Script, T, play
from wakeful.values.duration import DurationLike
from wakeful.values.job import JobId


class BlockingVerbs(Door):
    """For threads."""

    def enqueue(
        self,
        task: str | None = None,
        payload: Mapping[str, Any] | None = None,
        *,
        job_type: str | None = None,
        conn: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> JobId | None:
        """Enqueue a job, as `app.enqueue` does; `job_type` is another word for the task.

        `max_retries=3` is `max_attempts=4`.
        """
        return self._app.enqueue(either(task, job_type), payload, conn=conn, **options)

    def claim(
        self,
        task: str | Iterable[str] | None = None,
        limit: int = 1,
        wait: DurationLike | None = 0,
        lease: DurationLike = DEFAULT_LEASE,
        *,
        queues: str | Iterable[str] | None = None,
        renew: bool = True,
        job_type: str | Iterable[str] | None = None,
    ) -> list[ClaimedJob]:
        """Take up to `limit` jobs that are due, of one task, several, or (None) all.

        Each is held for `lease`, renewed in the background until it is settled, unless `renew` is False.
        With `wait` it sleeps until there is a job, for that long at most (None: as long as it takes); an
        empty list says there was none.
        """
        asked = claiming.asked(job_type if task is None else task, limit, wait, lease, queues, renew)
        return self._play(claiming.claim(self._here(), asked))

    dequeue = claim

    def mark_completed(self, job: JobRef, result: object = None) -> None:
        """The job is done. StaleClaim, with nothing changed, when it is not held by this claim any more."""
        self._play(self._end(job, settling.done(result)))

    def mark_failed(
        self,
        job: JobRef,
        error: Failure | None = None,
        retry: bool = True,
        *,
        code: str | None = None,
        message: str | None = None,
        details: Mapping[str, object] | None = None,
        retry_in: DurationLike | None = None,
    ) -> None:
        """The attempt failed: the job is started again later, or is dead.

        It is dead after its last start, and with `retry=False`. The wait is `retry_in`, else what the
        task's retry policy says. StaleClaim as for `mark_completed`.
        """
        self._play(self._fail(job, settling.Failure(error, retry, code, message, details, retry_in)))

    def snooze(self, job: JobRef, delay: DurationLike, reason: str | None = None) -> None:
        """Start the job again after `delay`; this attempt does not count."""
        self._play(self._end(job, settling.snoozed(delay, reason)))

    def release(self, job: JobRef) -> None:
        """Give the job back at once; this attempt does not count."""
        self._play(self._end(job, settling.released()))

    def extend(self, job: JobRef, lease: DurationLike | None = None) -> None:
        """Hold the job for `lease` from now on (None: as long as before). StaleClaim when it is lost."""
        here = self._here()
        self._play(settling.extend(here, here.claimed(job), lease))

    def get_stats(self, task: str | None = None, *, job_type: str | None = None) -> dict[str, int]:
        """Exact counts, of one task or of all: pending, processing, completed, failed, cancelled, total."""
        return self._play(operating.get_stats(job_type if task is None else task))

    def cleanup_old_jobs(self, days: float = 7, status: str = "completed") -> int:
        """Remove jobs that have been completed, cancelled or failed for `days`; returns how many.

        Failed ones are removed once they are acknowledged.
        """
        return self._play(operating.cleanup_old_jobs(days, status))

    def cancel(self, job_id: UUID | str, reason: str | None = None, *, actor: str | None = None) -> str:
        """Cancel any job: `cancelled`, or `requested` where it runs and its worker is told to stop."""
        return self._play(operating.cancel(job_id, reason, actor))

    def requeue(self, job_id: UUID | str, *, actor: str | None = None) -> UUID:
        """Put back a finished or dead job; returns the id of the new job that stands for it."""
        return self._play(operating.requeue(job_id, actor))

    def retry(self, job_id: UUID | str, *, actor: str | None = None) -> UUID:
        """Start a job as soon as can be, whether it waits or is over; returns the id of what will run."""
        return self._play(operating.retry(job_id, actor))

    def _play(self, script: Script[T]) -> T:
        return play(self._app.database, script)
