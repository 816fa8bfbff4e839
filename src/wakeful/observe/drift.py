"""What was changed by hand in our schema: functions and relations by the migrations' text, the rest by its shape."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from wakeful.values.finding import Finding

Shape = Mapping[str, str]
"""Columns, constraints, indexes and triggers by name (`column job.id`), each as the server defines it."""

MOST_NAMED: Final = 5
_FUNCTION: Final = re.compile(
    r"\bcreate (?:or replace )?function wakeful\.(\w+)\s*\(.*?(?:\bas (\$\w*\$)(.*?)\2|\breturn\b|\bbegin atomic\b)",
    re.DOTALL,
)


def drift(server: Mapping[str, Any], shipped: list[str], shape: Shape, shipped_shape: Shape) -> Finding:
    """Whatever is missing or other than it was shipped fails; what was only added is a warning."""
    gone = [*_functions_lost(server, shipped), *_relations_lost(server, shipped), *_misshapen(shape, shipped_shape)]
    added = [
        *_functions_added(server, shipped),
        *(f"{name} was added" for name in sorted(shape.keys() - shipped_shape)),
    ]
    if not (gone or added):
        return Finding("drift", "ok", "The schema is as shipped.")
    found = [*gone, *added]
    more = f", and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    told = f"The schema is not as shipped: {', '.join(found[:MOST_NAMED])}{more}."
    remedy = "Undo what was changed by hand: `wakeful migrate sql` prints what was shipped."
    return Finding("drift", "failing" if gone else "warning", told, remedy)


def _functions_lost(server: Mapping[str, Any], shipped: list[str]) -> Iterator[str]:
    wanted, there = shipped_functions(shipped), _functions_of(server)
    yield from (f"function {name} is missing" for name in sorted(wanted.keys() - there.keys()))
    for name in sorted(wanted.keys() & there.keys()):
        if there[name] - wanted[name]:
            yield f"function {name} was changed"


def _functions_added(server: Mapping[str, Any], shipped: list[str]) -> Iterator[str]:
    names = sorted(_functions_of(server).keys() - shipped_functions(shipped).keys())
    return (f"function {name} was added" for name in names)


def _functions_of(server: Mapping[str, Any]) -> dict[str, set[str]]:
    there: dict[str, set[str]] = {}
    for name, source in server["functions"] or []:
        there.setdefault(name, set()).add("" if source is None else _print_of(source))
    return there


def _relations_lost(server: Mapping[str, Any], shipped: list[str]) -> Iterator[str]:
    return (f"{name} is missing" for name in sorted(shipped_relations(shipped) - set(server["relations"] or [])))


def _misshapen(shape: Shape, wanted: Shape) -> Iterator[str]:
    for name in sorted(wanted):
        if name not in shape:
            yield f"{name} is missing"
        elif shape[name] != wanted[name]:
            yield f"{name} was changed ({_short(shape[name])}, shipped as {_short(wanted[name])})"


def _short(definition: str) -> str:
    """Of an index, what follows its name and table; of others, all of it."""
    text = definition.partition(" USING ")[2] or definition
    return text if len(text) <= 120 else f"{text[:119]}…"


def shipped_functions(shipped: Iterable[str]) -> dict[str, set[str]]:
    """The fingerprints of each function's text; empty ones where it has none to compare."""
    prints: dict[str, set[str]] = {}
    for text in shipped:
        for name, _, source in _FUNCTION.findall(text):
            prints.setdefault(name, {""}).add(_print_of(source) if source else "")
    return prints


def shipped_relations(shipped: Iterable[str]) -> set[str]:
    """The tables and views that migrations make."""
    made = r"\bcreate (?:unlogged )?(?:table|view) wakeful\.(\w+)\b(?! partition of)"
    return {name for text in shipped for name in re.findall(made, text)} - {"finished_job_default"}


def _print_of(source: str) -> str:
    return hashlib.md5(source.strip().encode(), usedforsecurity=False).hexdigest()
