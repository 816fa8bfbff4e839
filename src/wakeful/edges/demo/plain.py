"""The same story as lines of text, for where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable

from wakeful.edges.demo.gauge import Counts
from wakeful.edges.demo.scene import Scene, clock

EVERY_SECONDS = 2.0


class PlainLines:
    """Prints a line when something has happened, and how far it is now and then."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._told: set[int] = set()
        self._next = 0.0
        self._last: Counts | None = None

    def show(self, scene: Scene) -> None:
        """Print what was not printed yet."""
        for line in (*scene.boot, *scene.lines):
            if line.state == "done" and id(line) not in self._told:
                self._told.add(id(line))
                self._echo(f"{clock(scene.elapsed)}  ✓ {line.text}")
        if scene.began is not None and scene.elapsed >= self._next and scene.counts != self._last:
            self._next, self._last = scene.elapsed + EVERY_SECONDS, scene.counts
            self._echo(f"{clock(scene.elapsed)}  {figures(scene)}")


def figures(scene: Scene) -> str:
    """How far it is, in one line."""
    counts = scene.counts
    start = f", orders start within {counts.start_ms[0]:.1f} ms" if counts.start_ms else ""
    return f"{counts.completed:,} of {scene.enqueued:,} completed, {scene.rate:,.0f} jobs/s{start}"
