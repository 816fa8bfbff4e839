"""How commands answer: JSON for programs, a table that fits for a terminal, aligned text for a pipe."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from shutil import get_terminal_size
from textwrap import fill
from typing import Any, Final
from uuid import UUID

import click

# A column narrower than this is not worth breaking lines for.
MOST_CUT: Final = 20


def print_json(document: object) -> None:
    """One document on stdout: indented for a person, in one line for a pipe."""
    click.echo(json.dumps(_plain(document), indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, spare: Sequence[str] = ()) -> None:
    """Rows under a heading. On a terminal they are cut to fit; `spare` columns go first where there is no room."""
    texts = [[_cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        from wakeful.edges.cli.fitting import print_fitted

        print_fitted(columns, texts, spare)
        return
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for line in (columns, *texts):
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values, one a line; what is None is left out."""
    known = [(name, _fact(value)) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    for name, text in known:
        click.echo(f"{name:<{width}}  {text.replace(chr(10), chr(10) + ' ' * (width + 2))}")


def print_hanging(head: str, text: str) -> None:
    """A text behind a head. On a terminal it is broken between words, and goes on below where it began."""
    # What is copied stays in one piece: ids, options and whole commands.
    width = get_terminal_size().columns
    if sys.stdout.isatty() and len(head) + MOST_CUT <= width:
        whole = re.sub("`[^`]*`", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
        text = fill(whole, width - len(head), break_long_words=False, break_on_hyphens=False)
        text = text.replace("\N{NO-BREAK SPACE}", " ")
    click.echo(head + text.replace("\n", "\n" + " " * len(head)))


def age(since: datetime | None, now: datetime | None = None) -> str:
    """How long ago, in the largest unit that says something: 12s, 5m, 3h, 9d."""
    if since is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - since).total_seconds()
    sign, seconds = ("in ", -seconds) if seconds < -1 else ("", max(seconds, 0))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size * 2:
            return f"{sign}{seconds // size:.0f}{unit}"
    return f"{sign}{seconds:.0f}s"


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
    # Whatever a job carries, a line stays a line, and nothing in it steers the terminal.
    return "".join(sign if sign.isprintable() else " " for sign in str(value))


def _fact(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return json.dumps(_plain(value), indent=2, ensure_ascii=False)
    if isinstance(value, str):
        return "\n".join(_cell(line) for line in value.splitlines())
    return _cell(value)


def _plain(value: object) -> Any:
    match value:
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    return value
