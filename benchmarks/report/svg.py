"""Plots as small SVG files: readable on light and dark pages, and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.figures import short

WIDTH = 720
LABEL = 190
ROW = 24
OURS_COLOUR, PEER_COLOUR, BARE_COLOUR = "#0f9d7a", "#7a8ba3", "#c9a24b"
COLOURS = {"ours": OURS_COLOUR, "peer": PEER_COLOUR, "bare": BARE_COLOUR}
_LINE_COLOURS = (OURS_COLOUR, "#7a8ba3", "#c9a24b", "#a3627a", "#6a7fd0", "#8a6fb0", "#5f9fb0", "#b0745f")
_STYLE = "font: 12px system-ui, sans-serif; fill: #7d7d7d"


def bars(title: str, unit: str, rows: Sequence[tuple[str, str, float]]) -> str:
    """Horizontal bars: name, kind and value of each system."""
    largest = max((value for _, _, value in rows), default=0) or 1
    room = WIDTH - LABEL - 90
    shapes = []
    for index, (name, kind, value) in enumerate(rows):
        top, width = 30 + index * ROW, max(1.0, value / largest * room)
        shapes += [
            f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{top + 3}" width="{width:.1f}" height="{ROW - 8}" rx="2" fill="{COLOURS[kind]}"/>',
            f'<text x="{LABEL + width + 6:.1f}" y="{top + 15}">{short(value)}</text>',
        ]
    return _picture(f"{title}, {unit}", 36 + len(rows) * ROW, shapes)


def lines(title: str, unit: str, series: Mapping[str, Sequence[float]]) -> str:
    """One line a system over the rounds of a measurement."""
    height, left, right = 240, 60, 190
    largest = max((value for values in series.values() for value in values), default=0) or 1
    shapes = [
        f'<line x1="{left}" y1="{height - 30}" x2="{WIDTH - right}" y2="{height - 30}" stroke="#9995"/>',
        f'<text x="{left - 6}" y="44" text-anchor="end">{short(largest)}</text>',
        f'<text x="{left - 6}" y="{height - 26}" text-anchor="end">0</text>',
    ]
    for index, (name, values) in enumerate(series.items()):
        colour = _LINE_COLOURS[index % len(_LINE_COLOURS)]
        steps = max(1, len(values) - 1)
        points = [
            (left + (WIDTH - left - right) * place / steps, height - 30 - (height - 70) * value / largest)
            for place, value in enumerate(values)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        last_x, last_y = points[-1]
        shapes += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{last_x + 8:.1f}" y="{last_y + 4:.1f}" style="fill: {colour}">{escape(name)}</text>',
        ]
    return _picture(f"{title}, {unit}", height, shapes)


def _picture(title: str, height: int, shapes: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">'
    )
    caption = f'<text x="0" y="16" style="font-weight: 600">{escape(title)}</text>'
    return "\n".join([head, f"<style>text {{ {_STYLE} }}</style>", caption, *shapes, "</svg>"]) + "\n"
