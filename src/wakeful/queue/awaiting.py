"""The verbs that are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Unpack
from uuid import UUID

from wakeful.produce.options import EnqueueOptions
from wakeful.queue import claiming, operating, settling
from wakeful.queue.claimed import ClaimedJob
from wakeful.queue.door import DEFAULT_LEASE, Door, Failure, JobRef, either
from wakeful.queue.script import Script, T, aplay
from wakeful.values.duration import DurationLike
from wakeful.values.job import JobId


class AwaitingVerbs(Door):
    """For event loops."""

    async def aenqueue(
        self,
        task: str | None = None,
        payload: Mapping[str, Any] | None = None,
        *,
        job_type: str | None = None,
        conn: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> JobId | None:
        """As `enqueue`, awaited."""
        return await self._app.aenqueue(either(task, job_type), payload, conn=conn, **options)

    async def aclaim(
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
        """As `claim`, awaited."""
        asked = claiming.asked(job_type if task is None else task, limit, wait, lease, queues, renew)
        return await self._aplay(claiming.claim(self._here(), asked))

    adequeue = aclaim

    async def amark_completed(self, job: JobRef, result: object = None) -> None:
        """As `mark_completed`, awaited."""
        await self._aplay(self._end(job, settling.done(result)))

    async def amark_failed(
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
        """As `mark_failed`, awaited."""
        await self._aplay(self._fail(job, settling.Failure(error, retry, code, message, details, retry_in)))

    async def asnooze(self, job: JobRef, delay: DurationLike, reason: str | None = None) -> None:
        """As `snooze`, awaited."""
        await self._aplay(self._end(job, settling.snoozed(delay, reason)))

    async def arelease(self, job: JobRef) -> None:
        """As `release`, awaited."""
        await self._aplay(self._end(job, settling.released()))

    async def aextend(self, job: JobRef, lease: DurationLike | None = None) -> None:
        """As `extend`, awaited."""
        here = self._here()
        await self._aplay(settling.extend(here, here.claimed(job), lease))

    async def aget_stats(self, task: str | None = None, *, job_type: str | None = None) -> dict[str, int]:
        """As `get_stats`, awaited."""
        return await self._aplay(operating.get_stats(job_type if task is None else task))

    async def acleanup_old_jobs(self, days: float = 7, status: str = "completed") -> int:
        """As `cleanup_old_jobs`, awaited."""
        return await self._aplay(operating.cleanup_old_jobs(days, status))

    async def acancel(self, job_id: UUID | str, reason: str | None = None, *, actor: str | None = None) -> str:
        """As `cancel`, awaited."""
        return await self._aplay(operating.cancel(job_id, reason, actor))

    async def arequeue(self, job_id: UUID | str, *, actor: str | None = None) -> UUID:
        """As `requeue`, awaited."""
        return await self._aplay(operating.requeue(job_id, actor))

    async def aretry(self, job_id: UUID | str, *, actor: str | None = None) -> UUID:
        """As `retry`, awaited."""
        return await self._aplay(operating.retry(job_id, actor))

    async def aclose(self) -> None:
        """As `close`, awaited."""
        await asyncio.to_thread(self.close)

    async def _aplay(self, script: Script[T]) -> T:
        return await aplay(self._app.database, script)
