"""The running job on every log line that its handler writes, whoever formats it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from wakeful.values.current import current_fields, current_job
from wakeful.values.job import Job


class JobFields(logging.Filter):
    """Put it on a handler: lines get job_id, correlation_id, task, … and the task's log_fields; it drops nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True. What the line says itself stays as it is."""
        job = current_job.get()
        if job is None:
            return True
        told: dict[str, object] = {"job_id": str(job.id), "correlation_id": str(job.correlation_id)}
        if isinstance(job, Job):
            told |= {"task": job.task, "queue": job.queue, "attempt": job.attempt, "worker_id": str(job.worker_id)}
            if job.tenant is not None:
                told["tenant"] = job.tenant
        for name, value in (*told.items(), *(current_fields.get() or {}).items()):
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


@contextmanager
def on_every_line() -> Iterator[None]:
    """For as long as the block lasts, whatever the root logger's handlers write carries the running job."""
    fields = JobFields()
    handlers = [one for one in logging.getLogger().handlers if not any(isinstance(f, JobFields) for f in one.filters)]
    for handler in handlers:
        handler.addFilter(fields)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(fields)
