"""The worker's numbers through OpenTelemetry's metrics API, under the names that Prometheus gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from wakeful.observe.measures import STATUS
from wakeful.observe.observer import Observer
from wakeful.values.family import Family, Histogram
from wakeful.values.job import Job
from wakeful.values.run import Run


class OpenTelemetryMetrics(Observer):
    """Counts and histograms of one process; `families` gives gauges, asked whenever the SDK collects."""

    def __init__(self, meter: Meter | None = None, families: Callable[[], Iterable[Family]] | None = None) -> None:
        self._meter = meter or metrics.get_meter("wakeful")
        make = self._meter.create_counter
        self._claimed = make("wakeful_job_claimed", description="Jobs that this process claimed.")
        self._completed = make("wakeful_job_completed", description="Attempts that are over, by status.")
        histogram = self._meter.create_histogram
        self._processing = histogram("wakeful_job_processing_seconds", "s", "How long handlers ran.")
        self._queued = histogram("wakeful_job_queue_seconds", "s", "How long jobs were ready before they were claimed.")
        for family in families() if families is not None else ():
            if family.kind == "gauge" and families is not None:
                read = _reader(families, family.name)
                self._meter.create_observable_gauge(family.name, callbacks=[read], description=family.help)

    def claimed(self, jobs: Sequence[Job]) -> None:
        """By task."""
        for task, count in Counter(job.task for job in jobs).items():
            self._claimed.add(count, {"task": task})

    def ended(self, runs: Sequence[Run]) -> None:
        """By task and status."""
        counted = Counter((run.job.task, STATUS[run.outcome]) for run in runs if run.outcome in STATUS)
        for (task, status), count in counted.items():
            self._completed.add(count, {"task": task, "status": status})
        for run in runs:
            labels = {"task": run.job.task}
            self._processing.record(run.seconds, labels)
            self._queued.record(run.queue_seconds, labels)


def _reader(families: Callable[[], Iterable[Family]], name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(options: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(number, dict(zip(family.labels, values, strict=True)))
            for family in families()
            if family.name == name
            for values, number in family.samples.items()
            if not isinstance(number, Histogram)
        ]

    return read
