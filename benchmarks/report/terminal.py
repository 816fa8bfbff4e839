"""The report at the end of a run, for who has waited for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.goals import GOALS
from benchmarks.measurement import Measurement
from benchmarks.report.comparison import comparison
from benchmarks.report.tables import aligned
from benchmarks.results import Results


def tell(results: Results, measurements: Sequence[Measurement]) -> str:
    """All tables, what is missing, and the goals."""
    return "\n\n".join(_parts(results, measurements)) + "\n"


def _parts(results: Results, measurements: Sequence[Measurement]) -> Iterator[str]:
    for measurement in measurements:
        if results.systems_in(measurement.name):
            yield f"{measurement.title}\n{aligned(*comparison(results, measurement))}"
    if results.missing:
        yield "Not measured\n" + "\n".join(f"{name}: {why}" for name, why in results.missing.items())
    if problems := results.problems():
        yield "Failed\n" + "\n".join(
            f"{sample.measurement}, {results.systems[sample.system]['title']}: {sample.problem}" for sample in problems
        )
    rows = [goal.verdict(results).cells() for goal in GOALS]
    yield "Goals\n" + aligned(("", "value", "goal", ""), rows)
