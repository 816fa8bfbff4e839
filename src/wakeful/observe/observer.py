"""Who is told of the work. Each is told of sets, while the worker waits for its database, and may not block."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final
from uuid import UUID

from wakeful.values.alert import Alert
from wakeful.values.job import Job
from wakeful.values.outcome import Outcome
from wakeful.values.run import CompletedRuns, Run

log = logging.getLogger("wakeful.observe")

Tell = Callable[[Sequence[Outcome]], None]
"""Called inside the context of a handler, with how it went for each job."""


class Observer:
    """A base to override what is wanted of it; all of it is called on the worker's event loop."""

    everything = True
    """False: completed runs and claims are of no interest, and are not told."""

    @property
    def surrounds(self) -> bool:
        """Whether it wants to be asked for a context around handlers; a worker asks when it starts."""
        return type(self).around is not Observer.around

    def started(self, worker_id: UUID) -> None:
        """The worker is registered, under a new id too."""

    def claimed(self, jobs: Sequence[Job]) -> None:
        """These jobs were taken."""

    def completed(self, runs: CompletedRuns) -> None:
        """These jobs are done, and there is no more to say of them: hundreds at a time, under load."""
        told = zip(runs.jobs, runs.seconds, strict=True)
        self.ended([Run(job, "completed", seconds) for job, seconds in told])

    def ended(self, runs: Sequence[Run]) -> None:
        """These attempts are over."""

    def rested(self, counts: Mapping[str, int], counters: Mapping[str, float]) -> None:
        """Nothing is left to do: what was done since the last time, by outcome, and what handlers counted."""

    def alerted(self, alert: Alert) -> None:
        """An alert fired or cleared, and this worker is the one that found out."""

    def stopped(self) -> None:
        """The worker is about to leave."""

    def sending(self, task: str, queue: str | None, count: int) -> AbstractContextManager[Mapping[str, str]]:
        """A context for enqueuing so many jobs; what it gives travels in their metadata."""
        return nullcontext({})

    def around(self, jobs: Sequence[Job]) -> AbstractContextManager[Tell] | None:
        """A context for the call of a handler (of one job, or of a batch); None for none."""
        return None


class Watch:
    """Gathers what happens, and tells all observers of it as sets. An observer's own bug is logged, no more."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers = tuple(observers)
        self.everything = any(observer.everything for observer in self._observers)
        self.arounds = [one for one in self._observers if one.surrounds]
        self.lingers = any(type(one).stopped is not Observer.stopped for one in self._observers)
        self.pending: list[Run] = []
        # Without a value of its own: what was done is known from the job and the seconds alone.
        self.done: list[tuple[Job, float]] = []
        self._counts: dict[str, int] = {}
        self._counters: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._observers)

    def started(self, worker_id: UUID) -> None:
        """The worker has an id."""
        self._each(lambda observer: observer.started(worker_id))

    def claimed(self, jobs: Sequence[Job]) -> None:
        """These jobs were taken."""
        self._each(lambda observer: observer.claimed(jobs))

    def ended(self, run: Run) -> None:
        """An attempt is over: told with the next flush."""
        self.pending.append(run)

    def flush(self) -> None:
        """Tell of the attempts that are over."""
        if self.done:
            done, self.done = self.done, []
            completed = CompletedRuns.of(done)
            self._counts["completed"] = self._counts.get("completed", 0) + len(done)
            self._each(lambda observer: observer.completed(completed) if observer.everything else None)
        if self.pending:
            self._flush_others()

    def _flush_others(self) -> None:
        runs, self.pending = self.pending, []
        for run in runs:
            self._counts[run.outcome] = self._counts.get(run.outcome, 0) + 1
            for name, number in (run.counters or {}).items():
                self._counters[name] = self._counters.get(name, 0) + number
        self._each(lambda observer: observer.ended(runs))

    def rested(self) -> None:
        """Nothing is left to do."""
        self.flush()
        if self._counts:
            counts, self._counts = self._counts, {}
            counters, self._counters = self._counters, {}
            self._each(lambda observer: observer.rested(counts, counters))

    def alerted(self, alert: Alert) -> None:
        """An alert fired or cleared."""
        self._each(lambda observer: observer.alerted(alert))

    def stopped(self) -> None:
        """The worker is about to leave. May take some seconds: webhooks deliver their last."""
        self._each(lambda observer: observer.stopped())

    def _each(self, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            # Observers may be the user's own, and may raise anything: the work goes on.
            except Exception:
                _failed(observer)


NOBODY: Final = Watch()


@contextmanager
def surrounded(observers: Sequence[Observer], jobs: Sequence[Job]) -> Iterator[Tell]:
    """The contexts that observers want around the call of a handler, and the way to tell them how it went."""
    tells: list[tuple[Observer, Tell]] = []
    with ExitStack() as stack:
        for observer in observers:
            try:
                context = observer.around(jobs)
                if context is not None:
                    tells.append((observer, stack.enter_context(context)))
            # Observers may be the user's own, and may raise anything: the work goes on.
            except Exception:
                _failed(observer)
        yield lambda outcomes: _tell(tells, outcomes)


def _tell(tells: Sequence[tuple[Observer, Tell]], outcomes: Sequence[Outcome]) -> None:
    for observer, tell in tells:
        try:
            tell(outcomes)
        # As above.
        except Exception:
            _failed(observer)


def _failed(observer: Observer) -> None:
    name = type(observer).__name__
    log.exception("observer_failed: %s", name, extra={"event": "observer_failed", "observer": name})
