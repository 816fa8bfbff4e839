"""The core in a hundred lines of Python: what the functions should do, without locks, sessions or SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

SECOND = 1_000_000
LIVE = ("scheduled", "ready", "running")


@dataclass(slots=True)
class Ask:
    """What is asked for; None stands for the default."""

    id: UUID
    number: int
    priority: int | None = None
    delay: int = 0
    max_attempts: int = 3
    key: str | None = None


@dataclass(slots=True)
class ModelJob:
    """One job; times are microseconds on the model's clock."""

    id: UUID
    number: int
    rank: int
    max_attempts: int
    key: str | None
    run_at: int
    ready_at: int | None
    state: str
    attempt: int = 0
    epoch: int = 0
    worker_id: UUID | None = None
    lease_until: int | None = None
    cancel_requested: bool = False
    rerun: Ask | None = None
    rerun_at: int = 0
    requeued_as: UUID | None = None
    history: list[tuple[int, str]] = field(default_factory=list)

    @property
    def live(self) -> bool:
        return self.state in LIVE


@dataclass(slots=True)
class Model:
    """All jobs that ever were, and the clock."""

    now: int = 0
    jobs: dict[UUID, ModelJob] = field(default_factory=dict)

    def twin(self, key: str | None) -> ModelJob | None:
        """The live job that has the key."""
        return next((job for job in self.jobs.values() if job.live and key and job.key == key), None)

    def enqueue(self, ask: Ask, mode: str = "skip") -> tuple[UUID, str]:
        """The id that stands for the ask, and what was done."""
        if ask.id in self.jobs:
            return ask.id, "resent"
        twin = self.twin(ask.key)
        if twin is None:
            self.add(ask, self.now + ask.delay)
            return ask.id, "inserted"
        if mode == "raise":
            return twin.id, "raised"
        running = twin.state == "running"
        if mode == "skip" or (mode == "replace" and running):
            return twin.id, "skipped"
        if running or (twin.rerun is not None and mode != "debounce"):
            return self.note_rerun(twin, ask), "rerun"
        if mode != "debounce":
            twin.number = ask.number
        if ask.priority is not None:
            twin.rank = -ask.priority
        self.wait(twin, self.now + ask.delay, twin.ready_at)
        return twin.id, "debounced" if mode == "debounce" else "replaced"

    def add(self, ask: Ask, run_at: int) -> None:
        """A new job."""
        job = ModelJob(ask.id, ask.number, -(ask.priority or 0), ask.max_attempts, ask.key, run_at, None, "scheduled")
        self.jobs[ask.id] = job
        self.wait(job, run_at)

    def note_rerun(self, twin: ModelJob, ask: Ask) -> UUID:
        """The newest ask stays on the row, under the id that was promised first."""
        promised = twin.rerun.id if twin.rerun else ask.id
        ask.id = promised
        twin.rerun, twin.rerun_at = ask, self.now + ask.delay
        return promised

    def wait(self, job: ModelJob, run_at: int, ready_at: int | None = None) -> None:
        """The job is held by nobody, and due at that time."""
        due = run_at <= self.now
        job.state = "ready" if due else "scheduled"
        job.run_at, job.ready_at = run_at, (ready_at or self.now) if due else None
        job.worker_id = job.lease_until = None

    def finish(self, job: ModelJob, state: str) -> None:
        """The job is over; what was asked for meanwhile begins."""
        job.state = state
        rerun, job.rerun = job.rerun, None
        if rerun is not None:
            self.add(rerun, job.rerun_at)

    def end_attempt(self, job: ModelJob, outcome: str, retry_in: int | None, charged: bool) -> None:
        """A running attempt is over otherwise than by completion."""
        job.history.append((job.epoch, outcome))
        if job.cancel_requested:
            self.finish(job, "cancelled")
        elif retry_in is not None and (not charged or job.attempt < job.max_attempts):
            job.attempt -= 0 if charged else 1
            self.wait(job, self.now + retry_in)
        else:
            self.finish(job, "dead")

    def rescue(self) -> int:
        """Every lapsed lease ends its attempt."""
        lapsed = [job for job in self.of_state("running") if (job.lease_until or 0) <= self.now]
        for job in lapsed:
            self.end_attempt(job, "lapsed", 0, charged=True)
        return len(lapsed)

    def promote(self) -> int:
        """Whatever is due is ready."""
        due = [job for job in self.of_state("scheduled") if job.run_at <= self.now]
        for job in due:
            job.state, job.ready_at = "ready", self.now
        return len(due)

    def claim(self, worker: UUID, want: int, lease: int) -> list[ModelJob]:
        """The first in line, after what time has brought about."""
        self.rescue()
        self.promote()
        line = sorted(self.of_state("ready"), key=lambda job: (job.rank, job.ready_at or 0, job.id))
        for job in line[:want]:
            job.state, job.worker_id, job.lease_until = "running", worker, self.now + lease
            job.attempt += 1
            job.epoch += 1
        return line[:want]

    def holds(self, id: UUID, epoch: int, worker: UUID) -> ModelJob | None:
        """The job, if this claim still holds it."""
        job = self.jobs[id]
        held = job.state == "running" and (job.epoch, job.worker_id) == (epoch, worker)
        return job if held else None

    def cancel(self, id: UUID) -> str:
        """What cancelling is answered with."""
        job = self.jobs.get(id)
        if job is None:
            return "unknown"
        if job.state == "running":
            job.cancel_requested = True
            return "requested"
        if not job.live:
            return "over"
        self.finish(job, "cancelled")
        return "cancelled"

    def requeue(self, old: ModelJob, new_id: UUID) -> UUID:
        """The id that stands for a job that is over and put back."""
        if old.requeued_as is not None:
            return old.requeued_as
        ask = Ask(new_id, old.number, -old.rank, 0, old.max_attempts, old.key)
        made, _ = self.enqueue(ask)
        if old.state == "dead":
            old.requeued_as = made
        return made

    def of_state(self, state: str) -> Iterator[ModelJob]:
        """The jobs of that state, as they are at the moment."""
        return iter([job for job in self.jobs.values() if job.state == state])
