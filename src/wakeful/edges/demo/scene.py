"""What there is to see at one moment; whoever shows it reads it from here."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from wakeful.edges.demo.gauge import Counts, WorkerLine

State = Literal["ahead", "on", "alarm", "done"]
SAMPLES = 400


@dataclass(slots=True)
class Line:
    """One sentence of the story, rewritten while it happens."""

    text: str
    state: State = "ahead"

    def begins(self, text: str) -> None:
        """It happens."""
        self.text, self.state = text, "on"

    def alarms(self, text: str) -> None:
        """It happens, and it is bad."""
        self.text, self.state = text, "alarm"

    def ends(self, text: str) -> None:
        """It has happened."""
        self.text, self.state = text, "done"


@dataclass(frozen=True, slots=True)
class Killed:
    """A process that was killed, and its seat among the workers."""

    seat: int
    pid: int


@dataclass(slots=True)
class Scene:
    """`boot` tells what is started, `lines` the story, which `began` when the workers were there.

    `rates` are jobs a second, sample by sample; `killed` is the process that was, until its successor is there.
    """

    boot: list[Line] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    workers: list[WorkerLine] = field(default_factory=list)
    pids: list[int | None] = field(default_factory=list)
    killed: Killed | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    best_rate: float = 0.0
    enqueued: int = 0
    version: str = ""
    began: float | None = None
    footer: str = ""
    log: str = ""

    def line(self, text: str) -> Line:
        """One more sentence, still to come."""
        made = Line(text)
        self.lines.append(made)
        return made

    def forget_killed(self) -> None:
        """Once another process has its seat, and is on the list."""
        if self.killed is not None:
            successor = self.pids[self.killed.seat]
            if successor != self.killed.pid and successor in {worker.pid for worker in self.workers}:
                self.killed = None

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return 0.0 if self.began is None else time.monotonic() - self.began

    @property
    def rate(self) -> float:
        """Jobs completed a second, over about the last second."""
        recent = list(self.rates)[-4:]
        return sum(recent) / len(recent) if recent else 0.0


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
