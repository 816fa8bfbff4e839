"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def dsn_option(command: F) -> F:
    """`--dsn` after the command's name too, where people write it; it wins over the one before."""

    def choose(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
        from wakeful.config import load

        return load({"dsn": value or ctx.obj}).database.dsn

    return click.option("--dsn", metavar="DSN", callback=choose, help="The database to use.")(command)


def json_option(command: F) -> F:
    """`--json`: one JSON document on stdout, nothing else."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(command)
