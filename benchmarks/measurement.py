"""What is measured: a function that looks at one system, and the figures that it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.bench import Bench
from benchmarks.system import System

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number: its key among the values, what it is called, its unit, and which way is good."""

    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """`take` measures one system once; its docstring is what readers are told. The first figure is compared."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    take: Callable[[Bench, System], Values]
    suits: Callable[[System], bool]
    repeated: bool = True
    """Once a round; else once a run."""
    together: bool = False
    """All systems at the same time."""
    contested: bool = False
    """Rivals take part in a brief run too."""

    @property
    def figure(self) -> Figure:
        """The one by which systems are compared."""
        return self.figures[0]

    @property
    def counts(self) -> str:
        """What is counted, in words."""
        return inspect.cleandoc(self.take.__doc__ or "")

    def uncontested(self) -> Measurement:
        """The same, without rivals."""
        return replace(self, suits=lambda system: system.kind != "peer" and self.suits(system))

    def applies_to(self, system: System) -> bool:
        """Whether the system takes part."""
        chosen = system.only is None or self.name in system.only
        return chosen and self.name not in system.skips and self.suits(system)


def everyone(system: System) -> bool:
    """All systems that do not decline."""
    return True


def with_postgres(system: System) -> bool:
    """Those that keep their jobs in PostgreSQL."""
    return system.store == "postgres"


def ours(system: System) -> bool:
    """wakeful alone."""
    return system.kind == "ours"
