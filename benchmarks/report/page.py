"""The published page: docs/explanation/benchmarks.md, its plots, and the results that it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.goals import GOALS
from benchmarks.measure.pinned import ROUNDS
from benchmarks.measurement import Measurement
from benchmarks.report import svg
from benchmarks.report.comparison import comparison, ranked
from benchmarks.report.tables import piped
from benchmarks.results import Results

MOST_FIGURES = 7

INTRODUCTION = """\
# Benchmarks

wakeful beside its rivals and beside the bare driver: on one server, in the same rounds, each in the best configuration
that its documentation offers. This page is written by the benchmarks themselves. `make bench` takes some minutes and
measures wakeful, the limits of the bare drivers, and the two fastest rivals; `make bench-peers` measures all and
writes this page; `make bench-check` compares a fresh run with it. Figures depend on the machine, so look at the
ratios: each is the median over rounds, with the least and the greatest beside it, and formed within a round. Systems
take turns in alternating order. A figure that strays from round to round gets more of them: `make bench ARGS="--only
latency --rounds 3 --add"`.

What the rivals do for their time differs. wakeful keeps every finished job, counts attempts, and fences settlement.
"""


def publish(results: Results, measurements: Sequence[Measurement], folder: Path) -> Path:
    """Write page, plots and results below `folder`; the page's path."""
    plots = folder / "benchmarks"
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    measured = [each for each in measurements if results.systems_in(each.name)]
    for measurement in measured:
        if picture := plot(results, measurement):
            (plots / f"{measurement.name}.svg").write_text(picture, "utf-8")
    results.write(plots / "results.json")
    page = folder / "benchmarks.md"
    page.write_text("\n\n".join(part.strip() for part in _parts(results, measured)) + "\n", "utf-8")
    return page


def plot(results: Results, measurement: Measurement) -> str | None:
    """A picture where several systems are compared."""
    names = ranked(results, measurement)
    if len(names) < 2:
        return None
    if measurement.name.startswith("pinned"):
        keys = [f"round_{number}" for number in range(1, ROUNDS + 1)]
        middles = {name: [results.middle(measurement.name, name, key) for key in keys] for name in names}
        series = {
            results.systems[name]["title"]: [middle.median for middle in found if middle]
            for name, found in middles.items()
        }
        return svg.lines(measurement.title, "jobs/s by round", series)
    rows = []
    for name in names:
        middle = results.middle(measurement.name, name, measurement.figure.key)
        if middle:
            told = results.systems[name]
            rows.append((told["title"], told["kind"], middle.median))
    return svg.bars(measurement.title, f"{measurement.figure.title}, {measurement.figure.unit}", rows)


def _parts(results: Results, measurements: Sequence[Measurement]) -> Iterator[str]:
    yield INTRODUCTION
    yield "## Goals\n\n" + piped(("Goal", "value", "bound", ""), [goal.verdict(results).cells() for goal in GOALS])
    for measurement in measurements:
        yield f"## {measurement.title}\n\n{measurement.counts}"
        if len(results.systems_in(measurement.name)) > 1:
            yield f"![{measurement.title}](benchmarks/{measurement.name}.svg)"
        yield piped(*comparison(results, measurement, MOST_FIGURES))
    yield _systems(results)
    yield _machine(results)


def _systems(results: Results) -> str:
    rows = [
        (told["title"], told["version"] or "–", _runtime(told["versions"]), told["settings"])
        for told in results.systems.values()
    ]
    missing = [f"- {name}: {why}" for name, why in results.missing.items()]
    failed = [
        f"- {results.systems[sample.system]['title']}, {sample.measurement}: {sample.problem}"
        for sample in results.problems()
    ]
    absent = "\n\nNot measured:\n" + "\n".join([*missing, *failed]) if missing or failed else ""
    return "## Systems\n\n" + piped(("", "version", "on", "configuration"), rows) + absent


def _runtime(versions: dict[str, str]) -> str:
    return ", ".join(f"{name.capitalize()} {version}" for name, version in versions.items()) or "–"


def _machine(results: Results) -> str:
    machine = results.machine
    settings = ", ".join(f"{name} {value}" for name, value in machine["server_settings"].items())
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    return f"""## Machine

{machine["processor"]}, {machine["cores"]} cores, {machine["memory_gb"]} GB, {machine["system"]}; PostgreSQL
{machine["postgresql"]}, Python {machine["python"]}; {packages}. Taken {machine["taken_at"]}.

The server's settings, those for durability and those beyond its defaults: {settings}."""
