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

        return load({"dsn": given_dsn(ctx, value)}).database.dsn

    return click.option("--dsn", metavar="DSN", callback=choose, help="The database to use.")(command)


def given_dsn(ctx: click.Context, value: str | None) -> str | None:
    """What `--dsn` says, here or else before the command's name; None where it is not given at all."""
    from wakeful.values.address import address

    given = ctx.obj if value is None else value
    return None if given is None else address(given, "--dsn")


def json_option(command: F) -> F:
    """`--json`: one JSON document on stdout, nothing else."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(command)
