"""A scenario: load, faults, healing, drain, verdict. The same for every fault."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.evidence import WITNESS, Evidence, gather
from tests.chaos.faults.fault import Fault
from tests.chaos.invariants import broken
from tests.chaos.server import Server, private_server
from tests.chaos.stage import SLOTS, Stage, stage_on, started

LATE = "the settlement of job"
BURSTS = 3


@dataclass(frozen=True, slots=True)
class Effort:
    """How long faults go on: so many times, or for so many seconds; `burst` jobs measure the throughput, 0: none."""

    times: int | None = None
    seconds: float = 0.0
    rate: float = 40.0
    burst: int = 400


@dataclass(slots=True)
class Verdict:
    """One row of the report."""

    fault: str
    seed: int
    injected: int
    jobs: int
    refused: int
    recovery: float
    baseline: float
    after: float
    broken: dict[int, list[str]] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Acknowledged jobs that did not come to one end."""
        return sum(len(self.broken.get(number, [])) for number in (1, 2, 13))

    @property
    def doubled(self) -> int:
        """Settlements, effects or starts that should not have been."""
        return sum(len(self.broken.get(number, [])) for number in (3, 6, 8))

    @property
    def throughput(self) -> float | None:
        """After healing, as a share of that before; None when it was not measured."""
        return self.after / self.baseline if self.baseline else None


def play(kind: type[Fault], seed: int, effort: Effort) -> Verdict:
    """Run a scenario on a server of its own."""
    with tempfile.TemporaryDirectory(prefix="wakeful-chaos-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # The server's account must be able to reach its own folder.
        folder.chmod(0o755)
        with (
            kind.place(folder) as place,
            served(place, kind) as server,
            stage_on(server.dsn, folder, seed, server) as stage,
        ):
            return play_on(stage, kind, effort)


@contextmanager
def served(place: Path, kind: type[Fault]) -> Iterator[Server]:
    """A server with a witness."""
    with private_server(place / "server", tables=WITNESS, **kind.settings) as server:
        yield server


def play_on(stage: Stage, kind: type[Fault], effort: Effort) -> Verdict:
    """Run a scenario on a stage whose database has a witness."""
    stage.flags["lease"] = kind.lease
    fault = kind(stage)
    try:
        fault.prepare()
        started(stage)
        baseline = best(stage, effort)
        fault.begin()
        stage.begin_load(effort.rate)
        injected = inject(stage, fault, effort)
        fault.heal()
        healed = time.monotonic()
        jobs = stage.end_load() + 2 * BURSTS * effort.burst
        drained = stage.drain()
        recovery = time.monotonic() - healed
        after = best(stage, effort) if drained else 0.0
        stage.leave()
        seen = judge(stage, fault, drained)
        refused = stage.logs().count(LATE)
        return Verdict(kind.name, stage.seed, injected, jobs, refused, recovery, baseline, after, broken(seen))
    finally:
        fault.end()


def best(stage: Stage, effort: Effort) -> float:
    """The throughput of the best of some bursts: what others do on this machine can only make one slower."""
    return max(stage.burst(effort.burst) for _ in range(BURSTS)) if effort.burst else 0.0


def inject(stage: Stage, fault: Fault, effort: Effort) -> int:
    """Do it again and again, at moments that the dice choose; how often."""
    until = time.monotonic() + effort.seconds
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
