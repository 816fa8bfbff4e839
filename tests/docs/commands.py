"""Whether a line of a shell is one that the CLI accepts: parsed by click itself, and not run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePath

import click

from wakeful.edges.cli.main import cli

_BETWEEN = {"|", "||", "&&", ";", "&", ">", ">>", "2>", "<"}
_VARIABLE = re.compile(r"\w+=")


def calls(text: str) -> Iterator[list[str]]:
    """The arguments of every `wakeful …` in a piece of shell."""
    for line in lines(text):
        words: list[str] = []
        for word in [*line, ";"]:
            if word not in _BETWEEN:
                words.append(word)
                continue
            while words and _VARIABLE.match(words[0]):
                words.pop(0)
            if words and PurePath(words[0]).name == "wakeful":
                yield words[1:]
            words = []


def lines(text: str) -> Iterator[list[str]]:
    """The words of every line; one that ends inside quotes, or with a backslash, goes on."""
    begun = ""
    for line in text.replace("\\\n", " ").splitlines():
        begun += line.removeprefix("$ ")
        try:
            yield shlex.split(begun, comments=True)
            begun = ""
        except ValueError:
            begun += "\n"
    assert not begun, "a quotation is not closed"


def check(arguments: list[str]) -> None:
    """Raise click's own UsageError if the CLI would refuse the line."""
    command: click.Command = cli
    ctx = cli.make_context("wakeful", list(arguments))
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert found is not None
        command, ctx = found, found.make_context(name, rest, parent=ctx)
