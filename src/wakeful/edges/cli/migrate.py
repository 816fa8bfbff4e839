"""`wakeful migrate up|down|status|sql`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import click

from wakeful.edges.cli.acts import confirm
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.database.migrations import Migration, MigrationStatus

SIGNS = {"applied": "✓", "pending": "·", "changed": "!", "unknown": "?"}


@click.group()
def migrate() -> None:
    """Bring the database's schema up to date, or back."""


@migrate.command()
@click.option("--to", type=click.IntRange(min=0), metavar="N", help="Stop at version N.")
@dsn_option
def up(to: int | None, dsn: str | None) -> None:
    """Apply the migrations that are missing."""
    from wakeful.database import migrations
    from wakeful.database.connect import connect, resolve_dsn

    with connect(resolve_dsn(dsn), name="wakeful migrate") as conn:
        done = migrations.up(conn, to, report=_reporter("applied"))
    if not done:
        click.echo("The schema is up to date.")


@migrate.command()
@click.option("--to", type=click.IntRange(min=0), metavar="N", help="Go back to version N; 0 takes all back.")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Take the newest N back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dsn_option
def down(to: int | None, steps: int | None, yes: bool, dsn: str | None) -> None:
    """Take migrations back, the newest first. Users' jobs are kept."""
    from wakeful.database import migrations
    from wakeful.database.connect import connect, resolve_dsn

    if (to is None) == (steps is None):
        raise click.UsageError("Say how far: --to N, or --steps N.")
    with connect(resolve_dsn(dsn), name="wakeful migrate") as conn:
        there = migrations.applied(conn)
        target = to if to is not None else max(0, len(there) - (steps or 0))
        planned = migrations.plan("down", migrations.read_migrations(), there, target)
        if not planned:
            click.echo(f"The schema is at version {len(there)} already.")
            return
        confirm(f"Take back {', '.join(migration.label for migration in planned)}?", yes)
        migrations.down(conn, target, report=_reporter("taken back"))


@migrate.command()
@json_option
@dsn_option
def status(as_json: bool, dsn: str | None) -> None:
    """Show which migrations are applied, and which are not."""
    from wakeful.database import migrations
    from wakeful.database.connect import connect, resolve_dsn

    with connect(resolve_dsn(dsn), name="wakeful migrate") as conn:
        lines = migrations.status(conn)
    if as_json:
        _print_json(lines)
    else:
        _print_lines(lines)


@migrate.command()
@click.argument("direction", type=click.Choice(["up", "down"]), default="up")
@click.option("--from", "start", type=click.IntRange(min=0), metavar="N", help="As if at N; asks no database.")
@click.option("--to", type=click.IntRange(min=0), metavar="N", help="Up to, or back to, version N.")
@dsn_option
def sql(direction: Literal["up", "down"], start: int | None, to: int | None, dsn: str | None) -> None:
    """Print what `up` or `down` would run on this database, for psql. Changes nothing."""
    from wakeful.database import migrations
    from wakeful.database.connect import connect, resolve_dsn

    if direction == "down" and to is None:
        raise click.UsageError("Say how far back: --to N.")
    if start is not None:
        text = migrations.sql(direction, start, to)
    else:
        with connect(resolve_dsn(dsn), name="wakeful migrate") as conn:
            ahead = migrations.plan(direction, migrations.read_migrations(), migrations.applied(conn), to)
        text = migrations.script(ahead, direction)
    click.echo(text or "-- Nothing to do.\n", nl=False)


def _reporter(verb: str) -> Callable[[Migration], None]:
    def report(migration: Migration) -> None:
        breaking = " (breaking: workers of older releases stop)" if migration.breaking else ""
        click.echo(f"✓ {migration.label} {verb}{breaking}")

    return report


def _print_lines(lines: tuple[MigrationStatus, ...]) -> None:
    for line in lines:
        when = f" {line.applied_at:%Y-%m-%d %H:%M %Z}" if line.applied_at else ""
        click.echo(f"{SIGNS[line.state]} {line.version:04d}_{line.name}  {line.state}{when}")
    pending = sum(line.state == "pending" for line in lines)
    click.echo(f"{pending} pending: run `wakeful migrate up`." if pending else "The schema is up to date.")


def _print_json(lines: tuple[MigrationStatus, ...]) -> None:
    import json

    document = {
        "version": max((line.version for line in lines if line.applied_at), default=0),
        "newest": max((line.version for line in lines if line.state != "unknown"), default=0),
        "migrations": [asdict(line) for line in lines],
    }
    click.echo(json.dumps(document, default=datetime.isoformat))
