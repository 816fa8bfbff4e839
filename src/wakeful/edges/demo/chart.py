"""A bar chart of text: one column a sample, eight steps a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

BARS = " ▁▂▃▄▅▆▇█"
STEPS = len(BARS) - 1
# Below this the chart is not stretched to its full height: a calm stream looks calm.
LEAST_TOP = 120.0


def chart(samples: Iterable[float], width: int, rows: int) -> Iterator[str]:
    """The newest `width` samples, from the top row down."""
    shown = list(samples)[-width:]
    top = max([LEAST_TOP, *shown])
    heights = [round(value / top * rows * STEPS) or (value > 0) for value in shown]
    for row in reversed(range(rows)):
        yield "".join(BARS[min(STEPS, max(0, height - row * STEPS))] for height in heights)
