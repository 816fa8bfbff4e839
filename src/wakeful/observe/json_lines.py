"""Lines of the two commonest events, written out by hand: records and a JSON encoder would cost as much as the jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from wakeful.values.job import Job
from wakeful.values.run import CompletedRuns


class JsonLines:
    """JSON objects without their braces. What jobs of a task, queue and tenant have in common is written once."""

    def __init__(self) -> None:
        self._common: dict[tuple[str, str, str | None], str] = {}

    def begin_anew(self) -> None:
        """The worker has another id."""
        self._common.clear()

    def claimed(self, jobs: Sequence[Job]) -> list[str]:
        """`job_claimed`."""
        return [f'"event":"job_claimed",{told}' for told in self._each(jobs)]

    def completed(self, runs: CompletedRuns) -> list[str]:
        """`job_completed`."""
        told = zip(self._each(runs.jobs), runs.seconds, runs.queue_seconds, strict=True)
        return [
            f'"event":"job_completed",{job},"duration_ms":{seconds * 1000:.3f},"queue_time_ms":{waited * 1000:.3f}'
            for job, seconds, waited in told
        ]

    def _each(self, jobs: Sequence[Job]) -> Iterator[str]:
        known = self._common
        for job in jobs:
            key, correlation = job.key, job.correlation_key
            digits = key.hex()
            id = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
            first = id if correlation == key else uuid_text(correlation)
            common = known.get((job.task, job.queue, job.tenant)) or self._new(job)
            yield f'"job_id":"{id}","correlation_id":"{first}",{common},"attempt":{job.attempt}'

    def _new(self, job: Job) -> str:
        if len(self._common) > 1000:
            self._common.clear()
        told = {"task": job.task, "queue": job.queue, "worker_id": str(job.worker_id)}
        if job.tenant is not None:
            told["tenant"] = job.tenant
        common = json.dumps(told, ensure_ascii=False)[1:-1]
        self._common[job.task, job.queue, job.tenant] = common
        return common


def uuid_text(key: bytes) -> str:
    """An id of sixteen bytes as it is written; a UUID in between would take four times as long."""
    digits = key.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
