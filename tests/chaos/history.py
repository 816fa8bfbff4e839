"""What producers and workers wrote to fsynced files while it happened, outside PostgreSQL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.worker.apps import append


@dataclass(frozen=True, slots=True)
class Run:
    """One handler's run, as its process told: `end` is None when it was not heard of again."""

    job: UUID
    epoch: int
    attempt: int
    pid: int
    start: float
    end: float | None = None


@dataclass(slots=True)
class Asked:
    """One enqueue. `made` is what the database answered: the job itself, or the twin of its key; None: no answer.

    `at` is when the answer was there, in seconds since 1970.
    """

    job: UUID
    task: str
    made: UUID | None = None
    at: float = 0.0
    sent: int = 1
    refusals: list[str] = field(default_factory=list)


class History:
    """A folder with one file of the producers, and one of all workers."""

    def __init__(self, folder: Path) -> None:
        self.producers = folder / "producers"
        self.workers = folder / "workers"

    def ask(self, *jobs: tuple[UUID, str]) -> None:
        """About to be sent."""
        append(self.producers, *({"event": "asked", "job": str(job), "task": task} for job, task in jobs))

    def answer(self, *answers: tuple[UUID, UUID]) -> None:
        """Acknowledged: what was asked for, and the job that stands for it."""
        at = time.time()
        told = ({"event": "made", "job": str(job), "made": str(made), "at": at} for job, made in answers)
        append(self.producers, *told)

    def lose(self, job: UUID, error: str) -> None:
        """Sent, and the answer lost."""
        append(self.producers, {"event": "lost", "job": str(job), "error": error})

    def asked(self) -> dict[UUID, Asked]:
        """Every enqueue, by the id that the client gave it."""
        found: dict[UUID, Asked] = {}
        for line in lines(self.producers):
            id = UUID(line["job"])
            match line["event"]:
                case "asked" if id in found:
                    found[id].sent += 1
                case "asked":
                    found[id] = Asked(id, line["task"])
                case "made":
                    found[id].made, found[id].at = UUID(line["made"]), line["at"]
                case "lost":
                    found[id].refusals.append(line["error"])
        return found

    def runs(self) -> list[Run]:
        """Every handler's run, in the order of their starts. The same claim started twice is two runs."""
        told = list(lines(self.workers))
        ends = {(line["job"], line["epoch"], line["pid"]): line["at"] for line in told if line["event"] == "end"}
        return [run_of(line, ends) for line in told if line["event"] == "start"]


def run_of(line: Mapping[str, Any], ends: Mapping[tuple[str, int, int], float]) -> Run:
    """A line that tells of a start, with its end."""
    claim = (line["job"], line["epoch"], line["pid"])
    return Run(UUID(line["job"]), line["epoch"], line["attempt"], line["pid"], line["at"], ends.get(claim))


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file; one that a kill cut off is none."""
    text = path.read_text() if path.exists() else ""
    yield from parsed(text.splitlines(keepends=True))


def parsed(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What the lines say."""
    for text in texts:
        if text.endswith("\n"):
            yield json.loads(text)
