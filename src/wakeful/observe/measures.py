"""A worker's own numbers: plain counts, added to by sets of runs, and read by whoever scrapes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Final

from wakeful.observe.observer import Observer
from wakeful.observe.run_log import is_rescued
from wakeful.values.family import Family, Histogram, Samples
from wakeful.values.job import Job
from wakeful.values.run import CompletedRuns, Run, RunOutcome
from wakeful.values.standing import Standing

SECONDS: Final = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0),
)
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
STATUS: Final[Mapping[RunOutcome, str]] = {"completed": "success", "failed": "failed", "dead": "dead"}
CHANNEL: Final = "wakeful"
_TASK: Final = attrgetter("task")
_ATTEMPTS: Final = attrgetter("attempts")


class Bars:
    """A histogram that grows."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        """One more."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def add_all(self, values: Iterable[float]) -> None:
        """Many more: sorted, a bound is looked up once for all of them."""
        ordered, counts, before = sorted(values), self._counts, 0
        for index, bound in enumerate(self._bounds):
            upto = bisect_right(ordered, bound, before)
            counts[index] += upto - before
            before = upto
            if upto == len(ordered):
                break
        counts[-1] += len(ordered) - before
        self._total += sum(ordered)

    def read(self) -> Histogram:
        """As it stands."""
        return Histogram(self._bounds, tuple(self._counts), self._total)


class Measures(Observer):
    """Counts for one process. `slot` names it among those beside it: few names, however many processes there were."""

    def __init__(self, slot: str = "0") -> None:
        self.slot = slot
        self._claimed: dict[str, int] = {}
        self._rescued = 0
        self._ended: dict[tuple[str, RunOutcome], int] = {}
        self._processing: dict[str, Bars] = {}
        self._queued: dict[str, Bars] = {}
        self._sets = Bars(SIZES)

    def claimed(self, jobs: Sequence[Job]) -> None:
        """By task."""
        for task, count in Counter(map(_TASK, jobs)).items():
            self._claimed[task] = self._claimed.get(task, 0) + count
        self._rescued += sum(is_rescued(told) for told in filter(None, map(_ATTEMPTS, jobs)))

    def completed(self, runs: CompletedRuns) -> None:
        """By task; how long they ran and had waited."""
        self._sets.add(len(runs.jobs))
        tasks = list(map(_TASK, runs.jobs))
        for task, count in Counter(tasks).items():
            self._count(task, "completed", count)
            processing, queued = self._bars(task)
            mine = [one == task for one in tasks] if count < len(tasks) else None
            processing.add_all(runs.seconds if mine is None else compress(runs.seconds, mine))
            queued.add_all(runs.queue_seconds if mine is None else compress(runs.queue_seconds, mine))

    def ended(self, runs: Sequence[Run]) -> None:
        """By task and outcome."""
        self._sets.add(len(runs))
        for run in runs:
            self._count(run.job.task, run.outcome, 1)
            processing, queued = self._bars(run.job.task)
            processing.add(run.seconds)
            queued.add(run.queue_seconds)

    def _count(self, task: str, outcome: RunOutcome, count: int) -> None:
        self._ended[task, outcome] = self._ended.get((task, outcome), 0) + count

    def _bars(self, task: str) -> tuple[Bars, Bars]:
        if task not in self._processing:
            self._queued[task] = Bars(SECONDS)
            self._processing[task] = Bars(SECONDS)
        return self._processing[task], self._queued[task]

    def families(self) -> list[Family]:
        """Everything that was counted. May be called from any thread."""
        claimed, ended = dict(self._claimed), dict(self._ended)
        finished: Samples = {(task, STATUS[how]): float(count) for (task, how), count in ended.items() if how in STATUS}
        others: Samples = {(task, str(how)): float(count) for (task, how), count in ended.items() if how not in STATUS}
        return [
            Family(
                "wakeful_job_claimed_total",
                "counter",
                "Jobs that this process claimed.",
                ("task", "worker_id"),
                {(task, self.slot): float(count) for task, count in claimed.items()},
            ),
            Family(
                "wakeful_job_completed_total",
                "counter",
                "Attempts that are over: success, failed (tried again) or dead.",
                ("task", "status"),
                finished,
            ),
            Family(
                "wakeful_job_other_total",
                "counter",
                "Attempts that ended otherwise: snoozed, cancelled, released or lost.",
                ("task", "outcome"),
                others,
            ),
            Family(
                "wakeful_job_rescued_total",
                "counter",
                "Jobs claimed here that a lost worker had held.",
                (),
                {(): float(self._rescued)},
            ),
            _bars("wakeful_job_processing_seconds", "How long handlers ran.", self._processing),
            _bars("wakeful_job_queue_seconds", "How long jobs were ready before they were claimed.", self._queued),
            Family(
                "wakeful_settle_batch_size",
                "histogram",
                "How many attempts were settled together.",
                (),
                {(): self._sets.read()},
            ),
        ]


def _bars(name: str, text: str, bars: Mapping[str, Bars]) -> Family:
    return Family(name, "histogram", text, ("task",), {(task,): one.read() for task, one in dict(bars).items()})


def standing_families(standing: Standing) -> list[Family]:
    """What the worker's fetcher has counted, and how the worker stands."""
    counts = standing.counts
    wakeups: Samples = {(source,): float(counts[f"woken_by_{source}"]) for source in ("poke", "timer", "poll")}

    def number(name: str, kind: str, text: str, value: float) -> Family:
        return Family(name, "counter" if kind == "counter" else "gauge", text, (), {(): float(value)})

    return [
        Family(
            "wakeful_job_notification_received_total",
            "counter",
            "Notifications that arrived.",
            ("channel",),
            {(CHANNEL,): float(counts["notifications"])},
        ),
        Family("wakeful_wakeups_total", "counter", "What made the worker look.", ("source",), wakeups),
        number("wakeful_job_poll_scanned_total", "counter", "Jobs that only a poll found.", counts["poll_scanned"]),
        number("wakeful_claims_total", "counter", "Claims sent.", counts["claims"]),
        number("wakeful_claims_empty_total", "counter", "Claims that found nothing.", counts["empty_claims"]),
        number("wakeful_pulses_total", "counter", "Pulses sent.", counts["pulses"]),
        number("wakeful_lease_lost_total", "counter", "Settlements that came too late.", counts["refused"]),
        number("wakeful_listener_hears", "gauge", "1 while notifications arrive.", standing.hears),
        number("wakeful_worker_slots", "gauge", "Slots of this process.", standing.slots),
        number("wakeful_worker_running", "gauge", "Jobs that run in this process.", standing.running),
        number("wakeful_claim_age_seconds", "gauge", "Since the last answer to a claim.", standing.answered_seconds),
    ]
