"""The report: a table for the terminal, and the page in the docs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.chaos.faults import FAULTS
from tests.chaos.invariants import INVARIANTS, Checker
from tests.chaos.scenario import Verdict

PREFACE = """
# Proof: what was tried to lose, double or wedge a job

`make chaos` writes this page. Three workers, a steady load and a schedule that fires every second; one fault, again
and again, at moments that a seed chooses; then healing, and a drain. Producers and workers write what they do to
fsynced files outside PostgreSQL, and a witness in the database writes down every move of a job in the transaction that
makes it. From these sixteen invariants are checked.

*Lost* counts acknowledged jobs without exactly one final state, *doubled* settlements, effects and starts that should
not have been, *late settlements refused* those of workers that had lost the job: the fence at work. *Recovery* is the
time from healing until all that was asked for is done, leases that have to lapse included. *Throughput after* is that
after healing as a share of that before the first fault, in jobs that take 40 ms each: what it shows is whether all
slots of all workers are back at work. It is the median over some bursts (behind PgBouncer, where nobody is woken, over
the pieces of a long one), with its standard error; the row `none` shows how far it strays by chance.
"""

FOUND = """
## What it has found
What was found on the way was mended at its root, and what showed it is kept as a test.

- An asynchronous failover (`failover-async`, seed 7) left a job held for ever: its worker had settled it on the old
  primary, the standby had not heard of that, and the worker lived on. A worker compares what it holds with what the
  table says after every lost call, and with the pulse (`tests/worker/test_forgotten.py`).
- A job of a limited task was noted as started up to a millisecond before it had been enqueued (`worker-clock`, seed 7,
  on a busy machine): a claim looked at its clock, then at the line, and what came between the two was taken with the
  earlier time (`tests/races/test_claims.py`).
- Two workers that found each other's lease lapsed, because the clock had jumped, each locked the other's row and then
  waited for its own: a deadlock (`database-clock` behind PgBouncer, seed 7). A worker holds its own row first
  (`tests/races/test_claims.py`).
- A listener that was lost with a canary under way kept the worker's loop from ever sleeping until the next pulse (seed
  171 of the simulation, which never ended; `tests/simulation/test_seeds.py`).
"""

CLOSING = """
## That it can fail
Each checker is run against forged evidence, and the whole against planted bugs: a settlement without its epoch check, a
rescue without its guard, a settlement before its commit, a key that is looked up before the insert, an enqueue that is
answered before the disk has it, a worker that relies on NOTIFY alone. Each is caught
(`tests/chaos/test_planted_bugs.py`, `tests/chaos/test_ahead_of_the_disk.py`, `tests/simulation`).
"""

HEAD = ("fault", "injected", "jobs", "lost", "doubled", "late settlements refused", "recovery", "throughput after")


@dataclass(frozen=True, slots=True)
class Layer:
    """What is tried below the faults, and what it complains of; nothing: it holds."""

    says: str
    complaint: str

    @property
    def holds(self) -> bool:
        """Whether it has nothing to complain of."""
        return not self.complaint


def cells(verdict: Verdict) -> tuple[str, ...]:
    """One row."""
    share = verdict.throughput
    return (
        verdict.fault,
        str(verdict.injected),
        str(verdict.jobs),
        lost(verdict),
        str(verdict.doubled),
        str(verdict.refused),
        f"{verdict.recovery:.1f} s",
        "not measured" if share is None else f"{share.rate:.1%} ± {share.error:.1%}",
    )


def lost(verdict: Verdict) -> str:
    """What is lost; apart from it, what an asynchronous standby never heard of."""
    forgotten = verdict.forgotten
    return str(verdict.lost) if forgotten is None else f"{verdict.lost} + {forgotten.jobs} in the lag"


def remarks(verdict: Verdict) -> list[str]:
    """What there is to say of a row beside its numbers."""
    told = list(verdict.notes)
    if verdict.forgotten is not None:
        gone = verdict.forgotten
        told.append(
            f"{gone.jobs} acknowledged jobs are gone and {gone.runs} handlers ran under claims that are gone, all of"
            " them of the time that the standby lagged; what it had heard of came to one end each"
        )
    return told


def text(verdicts: Sequence[Verdict], missing: Mapping[str, str], layers: Sequence[Layer] = ()) -> str:
    """For a terminal: the table, then whatever is broken, with the seed that shows it again."""
    rows = [HEAD, *map(cells, verdicts)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"{one.fault}: {remark}" for one in verdicts for remark in remarks(one)]
    lines += [f"{name}: not run, {why}" for name, why in missing.items()]
    lines += [f"{layer.says}: {layer.complaint or 'all hold'}" for layer in layers]
    return "\n".join([*lines, *failures(verdicts)])


def failures(verdicts: Sequence[Verdict]) -> list[str]:
    """What is broken, and how to see it again."""
    return [
        f"{one.fault}: invariant {number}: {sentence} (make chaos ARGS='--only {one.fault} --seed {one.seed}"
        f"{f' --through {one.through}' if one.through else ''}')"
        for one in verdicts
        for number, sentences in one.broken.items()
        for sentence in sentences[:5]
    ]


@dataclass(frozen=True, slots=True)
class Way:
    """The verdicts of one way to the database: directly, or through something."""

    title: str
    verdicts: Sequence[Verdict]
    missing: Mapping[str, str]


def page(ways: Sequence[Way], size: str, again: str, layers: Sequence[Layer], soaked: str = "") -> str:
    """The page in the docs: how much was run, how to run it again, and what came of it."""
    broken = [line for way in ways for line in failures(way.verdicts)]
    parts = [
        PREFACE.strip(),
        f"## The run\n{size}, on a machine of {os.cpu_count()} cores that does other work too, on"
        f" {datetime.now(UTC):%d %B %Y}. Seen again with `{again}`.",
        *(part for way in ways for part in table(way)),
        "\n".join(f"- {layer.says}: {'all hold' if layer.holds else 'not all hold'}" for layer in layers),
        f"## Soak\n{soaked or 'Not run.'}",
        *(["## What did not hold", "\n".join(f"- {line}" for line in broken)] if broken else []),
        "## The faults",
        "\n".join(f"- `{kind.name}`: {kind.says}" for kind in FAULTS.values()),
        "## The invariants",
        "\n".join(invariant(checker) for checker in INVARIANTS.values()),
        FOUND.strip(),
        CLOSING.strip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(way: Way) -> list[str]:
    """One way to the database: its rows, what there is to say of them, and what was left out."""
    rows = [f"| {' | '.join(row)} |" for row in (HEAD, ("---",) * len(HEAD), *map(cells, way.verdicts))]
    said = [f"- `{one.fault}`: {remark}" for one in way.verdicts for remark in remarks(one)]
    absent = [f"- `{name}`: not run, {why}" for name, why in way.missing.items()]
    return [f"### {way.title}", "\n".join(rows), "\n".join([*said, *absent])]


def invariant(checker: Checker) -> str:
    """A checker's promise, as an entry of a numbered list."""
    number, _, promise = (checker.__doc__ or "").partition(": ")
    return f"{number}. {promise[:1].upper()}{promise[1:]}"
