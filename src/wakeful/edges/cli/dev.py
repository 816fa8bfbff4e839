"""`wakeful dev APP`: server, schema, worker, and a fresh start on every change."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import click

from wakeful.edges.cli.worker import child_command, read_settings
from wakeful.edges.cli.worker_options import given_dsn_option, log_options

if TYPE_CHECKING:
    from wakeful.config import Settings

# While editing nobody wants to wait for the last job: it is given back, and runs again.
SHUTDOWN_SECONDS = 3


@click.command()
@click.argument("app", required=False, metavar="[APP]")
@click.option("--queues", metavar="LIST", help="Queues to serve: mail:4,reports. All, if left out.")
@click.option("--concurrency", metavar="N", help="Slots for queues that have none of their own (10).")
@log_options
@given_dsn_option
def dev(app: str | None, **flags: object) -> int:
    """Run the jobs of APP, `module:attribute`, and start afresh whenever a file changes.

    Without a DSN the embedded server is started. The schema is brought up to date.
    """
    from wakeful.edges.cli.app_path import split_path

    settings = read_settings({"app": app, **flags})
    split_path(settings.app)
    say(prepare(settings))
    command = child_command(app, {"shutdown_timeout": SHUTDOWN_SECONDS, **flags})
    return asyncio.run(run(command))


def prepare(settings: Settings) -> str:
    """Start the server if it is ours, and bring the schema up to date; the answer says what is there."""
    from wakeful.database import embedded, migrations
    from wakeful.database.connect import connect

    given = settings.database.dsn
    server = None if given else embedded.ensure()
    with connect(given or (server.dsn if server else ""), name="wakeful dev") as conn:
        done = migrations.up(conn)
        version = migrations.newest_version()
        at = f"{conn.info.host}:{conn.info.port}/{conn.info.dbname}"
    where = f"embedded, in {os.path.relpath(server.directory)}" if server else at
    return f"PostgreSQL ({where}), schema {version}{' just made' if done else ''}."


async def run(command: tuple[str, ...]) -> int:
    """Run the child until Ctrl-C."""
    from wakeful.edges.supervisor.process import with_signals
    from wakeful.edges.supervisor.reloader import Reloader

    reloader = Reloader(command, os.getcwd(), SHUTDOWN_SECONDS + 10.0, say)
    with_signals(asyncio.get_running_loop(), reloader.stop, reloader.restart)
    say(f"Watching {reloader.watched} files below {os.getcwd()}; Ctrl-C ends.")
    await reloader.run()
    return 0


def say(sentence: str) -> None:
    """A line between those of the worker."""
    click.echo(click.style("dev", fg="cyan") + f"  {sentence}", err=True)
