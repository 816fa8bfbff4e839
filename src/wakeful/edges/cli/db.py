"""`wakeful db start|stop|status|shell|reset`: the embedded server, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wakeful.edges.cli.acts import confirm, yes_option
from wakeful.edges.cli.options import json_option

if TYPE_CHECKING:
    from wakeful.database.embedded import ServerStatus

directory_option = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="WAKEFUL_DIRECTORY",
    help="Where its data is; else WAKEFUL_DIRECTORY, .wakeful below the working directory.",
)


@click.group()
def db() -> None:
    """Start, stop and look at the embedded PostgreSQL."""


@db.command()
@directory_option
def start(directory: Path | None) -> None:
    """Start the server, until `db stop`; prints its DSN."""
    from wakeful.database.embedded import ensure

    click.echo(ensure(directory, pinned=True).dsn)


@db.command()
@directory_option
def stop(directory: Path | None) -> None:
    """Stop the server, whoever uses it. Its data stays."""
    from wakeful.database import embedded

    click.echo("Stopped." if embedded.stop(directory) else "It was not running.")


@db.command()
@directory_option
@json_option
@click.pass_context
def status(ctx: click.Context, directory: Path | None, as_json: bool) -> None:
    """Show the server; exit 1 if it is not running."""
    from wakeful.database import embedded

    found = embedded.status(directory)
    if as_json:
        _print_json(found)
    elif found:
        _print_lines(found)
    else:
        click.echo("Not running.")
    ctx.exit(0 if found else 1)


@db.command(context_settings={"ignore_unknown_options": True})
@directory_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def shell(directory: Path | None, arguments: tuple[str, ...]) -> None:
    """Open psql on the server, started if need be. ARGUMENTS are psql's."""
    from wakeful.database.embedded.shell import become_psql

    become_psql(directory, arguments)


@db.command()
@directory_option
@yes_option
def reset(directory: Path | None, yes: bool) -> None:
    """Stop the server and remove all its data."""
    from wakeful.database import embedded

    confirm(f"Remove the server's data in {embedded.locate(directory).directory}, all jobs included?", yes)
    click.echo("Removed." if embedded.reset(directory) else "There was nothing to remove.")


def _print_json(found: ServerStatus | None) -> None:
    import json
    from dataclasses import asdict

    facts = {"running": found is not None} | (asdict(found) if found else {})
    click.echo(json.dumps(facts, indent=2, default=str))


def _print_lines(found: ServerStatus) -> None:
    from dataclasses import asdict

    stays = "until `wakeful db stop`" if found.pinned else "while somebody uses it"
    click.echo(f"PostgreSQL {found.version} runs, {stays}.")
    for name, value in asdict(found).items():
        if name not in ("version", "pinned"):
            click.echo(f"  {name.replace('_', ' '):<17} {value}")
