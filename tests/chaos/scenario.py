"""A scenario: load, faults, healing, drain, verdict. The same for every fault."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.evidence import Evidence, gather
from tests.chaos.faults.fault import Fault, Nothing
from tests.chaos.forgetting import Forgotten, forget
from tests.chaos.invariants import broken
from tests.chaos.pace import Pace, measure
from tests.chaos.pooler import pooled
from tests.chaos.stage import SLOTS, Stage, stage_on, started

LATE = "the settlement of job"
THROUGH = ("pgbouncer",)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long faults go on: so many times, or for so many seconds; and the bursts that measure the throughput."""

    times: int | None = None
    seconds: float = 0.0
    rate: float = 40.0
    bursts: int = 0


@dataclass(slots=True)
class Verdict:
    """One row of the report."""

    fault: str
    seed: int
    through: str | None = None
    injected: int = 0
    jobs: int = 0
    refused: int = 0
    recovery: float = 0.0
    # After healing, as a share of that before; None when it was not measured.
    throughput: Pace | None = None
    forgotten: Forgotten | None = None
    notes: list[str] = field(default_factory=list)
    broken: dict[int, list[str]] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Acknowledged jobs that did not come to one end."""
        return sum(len(self.broken.get(number, [])) for number in (1, 2, 13))

    @property
    def doubled(self) -> int:
        """Settlements, effects or starts that should not have been."""
        return sum(len(self.broken.get(number, [])) for number in (3, 6, 8))


def play(kind: type[Fault], seed: int, effort: Effort, through: str | None = None) -> Verdict:
    """Run a scenario on a server of its own, reached directly or through something."""
    with ExitStack() as opened:
        name = tempfile.TemporaryDirectory(prefix="wakeful-chaos-", ignore_cleanup_errors=True)
        folder = Path(opened.enter_context(name))
        # The server's account must be able to reach its own folder.
        folder.chmod(0o755)
        place = opened.enter_context(kind.place(folder))
        dsn, server = opened.enter_context(kind.served(place))
        stage = opened.enter_context(stage_on(dsn, folder, seed, server))
        if through == "pgbouncer":
            stage.go_through(opened.enter_context(pooled(folder, dsn)))
        verdict = play_on(stage, kind, effort)
        verdict.through = through
        return verdict


def play_on(stage: Stage, kind: type[Fault], effort: Effort) -> Verdict:
    """Run a scenario on a stage whose database has a witness."""
    stage.flags["lease"] = kind.lease
    verdict = Verdict(kind.name, stage.seed)
    fault = kind(stage)
    try:
        fault.prepare()
        started(stage)
        before = pace(stage, effort)
        fault.begin()
        stage.begin_load(effort.rate)
        verdict.injected = inject(stage, fault, effort)
        fault.heal()
        healed = time.monotonic()
        stage.end_load()
        drained = stage.drain()
        verdict.recovery = time.monotonic() - healed
        after = pace(stage, effort) if drained else None
        verdict.throughput = after.against(before) if after and before else None
        stage.leave()
        verdict.refused = stage.logs().count(LATE)
        conclude(verdict, fault, judge(stage, fault, drained))
        return verdict
    finally:
        fault.end()


def conclude(verdict: Verdict, fault: Fault, seen: Evidence) -> None:
    """What is broken, once what was forgotten is taken out."""
    verdict.jobs = len(seen.asked)
    if fault.forgetting is not None:
        verdict.forgotten = forget(seen, fault.forgetting)
    verdict.notes = fault.notes()
    verdict.broken = broken(seen)
    complaints = fault.complaints()
    if not verdict.injected and not isinstance(fault, Nothing):
        complaints.append("it was never done, so nothing is shown")
    if complaints:
        verdict.broken.setdefault(13, []).extend(complaints)


def pace(stage: Stage, effort: Effort) -> Pace | None:
    """How fast the workers are now, if anyone wants to know."""
    return measure(stage, effort.bursts) if effort.bursts else None


def inject(stage: Stage, fault: Fault, effort: Effort) -> int:
    """Do it again and again, at moments that the dice choose; how often."""
    until = time.monotonic() + effort.seconds * fault.share
    injected = 0
    most = effort.times
    while (most is not None and injected < most) or (most is None and time.monotonic() < until):
        time.sleep(stage.dice.uniform(*fault.pause))
        injected += fault.inject()
        if fault.over:
            break
    return injected


def judge(stage: Stage, fault: Fault, drained: bool) -> Evidence:
    """All that is to be seen when everything is quiet."""
    with stage.session() as db:
        return gather(
            db,
            stage.history,
            slots=SLOTS,
            drained=drained,
            ownership_losses=fault.takes_jobs,
            deadlocks=stage.logs().count("deadlock detected"),
        )
