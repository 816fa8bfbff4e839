"""Small sums: percentiles, medians, ratios with their spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of several rounds, and their extremes."""

    median: float
    low: float
    high: float
    rounds: int


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(statistics.median(values), min(values), max(values), len(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def waits(milliseconds: Sequence[float]) -> dict[str, float]:
    """Percentiles of waiting times, as values of a sample."""
    return {
        "p50_ms": percentile(milliseconds, 50),
        "p95_ms": percentile(milliseconds, 95),
        "p99_ms": percentile(milliseconds, 99),
        "max_ms": max(milliseconds),
    }


def short(value: float) -> str:
    """A number as people read it: three digits that count, thousands apart."""
    if value == 0 or abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"
