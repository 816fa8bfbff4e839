"""A family of numbers under one name, as monitoring systems take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts` are by bucket, not cumulative, the last for what is above all bounds."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


Samples = Mapping[tuple[str, ...], float | Histogram]
"""By the values of the labels."""


@dataclass(frozen=True, slots=True)
class Family:
    """`samples` are labels and a number, or a histogram."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    samples: Samples = field(default_factory=dict)
