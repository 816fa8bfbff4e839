"""Whether anything goes by a name: a pause of what is spelled wrongly stops nothing."""

from __future__ import annotations

from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from wakeful.statements import read, read_fleet

if TYPE_CHECKING:
    from wakeful.edges.cli.asking import Asking

PATIENCE: Final = timedelta(seconds=1)


def unknown(asking: Asking, kind: str, name: str) -> str | None:
    """What to say of a queue or a task that nothing goes by, live or finished; None where something does."""
    wanted = read.JobFilter(queue=name) if kind == "queue" else read.JobFilter(task=name)
    if asking.run(read.search(wanted, limit=1, patience=PATIENCE)).ids:
        return None
    names = asking.run(read_fleet.names(kind))
    if name in names:
        return None
    return f"No job, worker or schedule knows {kind} {name}: {nearest(name, names) or 'check the name.'}"


def nearest(name: str, names: list[str]) -> str | None:
    """Which of the names may be meant, as a question."""
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else None
