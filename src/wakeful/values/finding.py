"""A finding: one thing that was looked at, how it stands, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "failing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`told` is a sentence; `remedy` what to do, None where there is nothing to do."""

    name: str
    level: Level
    told: str
    remedy: str | None = None


def worst(findings: Iterable[Finding]) -> Level:
    """How it stands altogether."""
    levels = {finding.level for finding in findings}
    return "failing" if "failing" in levels else "warning" if "warning" in levels else "ok"
