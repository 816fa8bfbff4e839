"""docs/reference/cli.md, from the click commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from docs.generators.markdown import anchor, code, joined, paragraphs, table
from wakeful.edges.cli import main
from wakeful.edges.cli.main import cli

INTRO = """
# Commands

Every reading command takes `--json`: one JSON document on stdout, and nothing else. An error is a sentence on stderr
that ends in what to do. Flags that are settings can be given in other ways too: see [settings](settings.md).
"""


def page() -> str:
    """The page."""
    found = list(commands())
    exit_codes = next(text for text in paragraphs(main.__doc__) if text.startswith("0 is"))
    overview = table(
        ["command", ""],
        [(f"[{code(path)}]({anchor(path)})", first_line(command)) for path, command in found],
    )
    return joined(INTRO, overview, "## Exit codes", exit_codes, *[section(*one) for one in found])


def commands(command: click.Command = cli, path: str = "wakeful") -> Iterator[tuple[str, click.Command]]:
    """Every command with its path, groups before what is in them, in the order of `--help`."""
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command, info_name=path)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from commands(found, f"{path} {name}")


def section(path: str, command: click.Command) -> str:
    """What one command does and takes."""
    if not command.help:
        raise LookupError(f"{path} has no help: give it a docstring")
    pieces = command.collect_usage_pieces(click.Context(command, info_name=path))
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    return joined(
        f"## {path}",
        *paragraphs(command.help),
        f"```text\n{' '.join([path, *pieces])}\n```",
        table(["option", "meaning"], [row(path, option) for option in options]) if options else "",
    )


def row(path: str, option: click.Option) -> tuple[str, str]:
    """One option."""
    spelled = ", ".join([*option.opts, *option.secondary_opts])
    metavar = "" if option.is_flag else f" {option.metavar or (option.name or '').upper()}"
    if option.name == "version":
        return code(spelled), "Show the version and exit."
    if not option.help:
        raise LookupError(f"{spelled} of {path} has no help")
    variable = f" Also {code(str(option.envvar))}." if option.envvar else ""
    return code(f"{spelled}{metavar}"), option.help + variable


def first_line(command: click.Command) -> str:
    """The help's first paragraph."""
    return next(iter(paragraphs(command.help)), "")
