"""Lines of the two commonest events, written by hand: records and a JSON encoder would cost as much as the jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from wakeful.values.job import Job
from wakeful.values.run import CompletedRuns

MOST_REMEMBERED: Final = 20_000
MOST_SHARED: Final = 1000


class JsonLines:
    """JSON objects without their braces and their event.

    What jobs of a task, queue and tenant share is written once, and what is told of a job at its claim is
    remembered for its end.
    """

    def __init__(self) -> None:
        self._shared: dict[tuple[str, str, str | None], str] = {}
        self._told: dict[bytes, str] = {}

    def begin_anew(self) -> None:
        """The worker has another id."""
        self._shared.clear()
        self._told.clear()

    def claimed(self, jobs: Sequence[Job]) -> list[str]:
        """`job_claimed`."""
        told, shared = self._told, self._shared
        if len(told) > MOST_REMEMBERED:
            # Of jobs that were given back, and are told of no more.
            told.clear()
        lines = []
        # In one piece: a call for each job would cost as much as what it does.
        for job in jobs:
            key, correlation = job.key, job.correlation_key
            digits = key.hex()
            id = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
            first = id if correlation == key else uuid_text(correlation)
            kind = shared.get((job.task, job.queue, job.tenant)) or self._share(job)
            line = told[key] = f'"job_id":"{id}","correlation_id":"{first}",{kind},"attempt":{job.attempt}'
            lines.append(line)
        return lines

    def completed(self, runs: CompletedRuns) -> list[str]:
        """`job_completed`."""
        recall = self._told.pop
        return [
            f'{recall(job.key, None) or self._of(job)},"duration_ms":{seconds * 1000:.3f}'
            f',"queue_time_ms":{waited * 1000:.3f}'
            for job, seconds, waited in zip(runs.jobs, runs.seconds, runs.queue_seconds, strict=True)
        ]

    def forget(self, job: Job) -> None:
        """Its end is told otherwise."""
        self._told.pop(job.key, None)

    def _of(self, job: Job) -> str:
        [line] = self.claimed((job,))
        self.forget(job)
        return line

    def _share(self, job: Job) -> str:
        if len(self._shared) > MOST_SHARED:
            self._shared.clear()
        told = {"task": job.task, "queue": job.queue, "worker_id": str(job.worker_id)}
        if job.tenant is not None:
            told["tenant"] = job.tenant
        text = json.dumps(told, ensure_ascii=False)[1:-1]
        self._shared[job.task, job.queue, job.tenant] = text
        return text


def uuid_text(key: bytes) -> str:
    """An id of sixteen bytes as it is written; a UUID in between would take four times as long."""
    digits = key.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
