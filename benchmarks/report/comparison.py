"""One measurement as rows: each system's figures, and its ratio to wakeful with the spread over the rounds."""

from __future__ import annotations

from benchmarks.figures import Spread, short
from benchmarks.measurement import Figure, Measurement
from benchmarks.report.tables import Row
from benchmarks.results import Results

OURS = "wakeful"
# As wide as a terminal can show; a page has room for more.
MOST_FIGURES = 5


def comparison(results: Results, measurement: Measurement, most: int = MOST_FIGURES) -> tuple[Row, list[Row]]:
    """Head and rows, the best first, with this many figures."""
    figures = [figure for figure in measurement.figures if _anyone(results, measurement, figure)][:most]
    compares = OURS in results.systems_in(measurement.name) and len(results.systems_in(measurement.name)) > 1
    head = ["", *(f"{figure.title}, {figure.unit}" for figure in figures), *(["to wakeful"] if compares else [])]
    rows: list[Row] = []
    for name in ranked(results, measurement):
        middles = [results.middle(measurement.name, name, figure.key) for figure in figures]
        cells = [short(middle.median) if middle else "–" for middle in middles]
        ratio = results.ratio(measurement.name, measurement.figure.key, name, OURS)
        rows.append([results.systems[name]["title"], *cells, *([spread_text(ratio)] if compares else [])])
    return head, rows


def ranked(results: Results, measurement: Measurement) -> list[str]:
    """Systems, the best first."""
    figure = measurement.figure

    def place(name: str) -> float:
        middle = results.middle(measurement.name, name, figure.key)
        value = middle.median if middle else 0.0
        return -value if figure.better == "higher" else value

    return sorted(results.systems_in(measurement.name), key=place)


def spread_text(ratio: Spread | None) -> str:
    """The median, and the extremes where there are several rounds."""
    if ratio is None:
        return "–"
    if ratio.rounds == 1:
        return short(ratio.median)
    return f"{short(ratio.median)} ({short(ratio.low)}–{short(ratio.high)})"


def _anyone(results: Results, measurement: Measurement, figure: Figure) -> bool:
    return any(results.rounds(measurement.name, name, figure.key) for name in results.systems_in(measurement.name))
