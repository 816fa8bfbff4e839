"""The first lines of the screen: what is being started, and how long it took."""

from __future__ import annotations

import time

from wakeful.edges.demo.scene import Line, Scene

NAMES = {"server": "PostgreSQL starts", "schema": "The schema is made", "workers": "Workers start"}


class Boot:
    """Writes on the scene until the story begins."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._since = time.monotonic()

    def step(self, name: str) -> None:
        """The one before is done, the next begins. Called from a thread, too."""
        self._end_last()
        self._scene.boot.append(Line(NAMES[name], "on"))

    def done(self) -> None:
        """All is there: the story begins."""
        self._end_last()
        self._scene.began = time.monotonic()

    def _end_last(self) -> None:
        now = time.monotonic()
        if self._scene.boot:
            last = self._scene.boot[-1]
            last.ends(f"{last.text}: {now - self._since:.1f} s")
        self._since = now
