"""What a run has found, as values and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.figures import Spread, spread


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one system in one round; `problem` says why there are no values."""

    measurement: str
    system: str
    round: int
    values: Mapping[str, float]
    problem: str | None = None


@dataclass(slots=True)
class Results:
    """All samples of a run, and what they were taken on."""

    machine: dict[str, Any]
    systems: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    def rounds(self, measurement: str, system: str, key: str) -> dict[int, float]:
        """The value in each round in which there is one."""
        return {
            sample.round: sample.values[key]
            for sample in self.samples
            if sample.measurement == measurement and sample.system == system and key in sample.values
        }

    def middle(self, measurement: str, system: str, key: str) -> Spread | None:
        """The median over the rounds."""
        values = self.rounds(measurement, system, key)
        return spread(list(values.values())) if values else None

    def ratio(self, measurement: str, key: str, system: str, to: str) -> Spread | None:
        """The median over the rounds of `system` divided by `to`, both taken in the same round."""
        mine, theirs = self.rounds(measurement, system, key), self.rounds(measurement, to, key)
        both = [mine[number] / theirs[number] for number in mine if theirs.get(number)]
        return spread(both) if both else None

    def systems_in(self, measurement: str) -> list[str]:
        """Those that were measured, in order of appearance."""
        found = (sample.system for sample in self.samples if sample.measurement == measurement and sample.values)
        return list(dict.fromkeys(found))

    def with_rounds_of(self, more: Results) -> Results:
        """These, and the rounds of another run on the same machine after them."""
        last = max((sample.round for sample in self.samples), default=0)
        later = [replace(sample, round=sample.round + last) for sample in more.samples]
        return Results(self.machine, {**self.systems, **more.systems}, self.missing, [*self.samples, *later])

    def problems(self) -> list[Sample]:
        """What could not be measured."""
        return [sample for sample in self.samples if sample.problem]

    def write(self, path: Path) -> None:
        """As JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_results(path: Path) -> Results:
    """What `write` wrote."""
    saved = json.loads(path.read_text("utf-8"))
    return Results(
        saved["machine"],
        saved["systems"],
        saved["missing"],
        [Sample(**sample) for sample in saved["samples"]],
    )
