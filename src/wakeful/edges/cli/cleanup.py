"""`wakeful cleanup`."""

from __future__ import annotations

import sys

import click

from wakeful.edges.cli.acts import confirm, yes_option
from wakeful.edges.cli.options import dsn_option, json_option


@click.command()
@click.option("--days", type=click.FloatRange(min=0), default=7, show_default=True, help="Keep this many days.")
@click.option(
    "--status", default="completed", show_default=True, help="Which: completed, failed (once acknowledged), cancelled."
)
@yes_option
@dsn_option
@json_option
def cleanup(days: float, status: str, yes: bool, dsn: str | None, as_json: bool) -> None:
    """Remove jobs that have been over for some days; prints how many."""
    from wakeful.edges.cli.asking import acting
    from wakeful.edges.cli.showing import print_json
    from wakeful.queue import operating
    from wakeful.queue.script import play
    from wakeful.values.state import final_state

    state = final_state(status, "--status")
    # Without a person at the terminal this is a cron job, which knows what it does.
    confirm(f"Remove {state} jobs that are older than {days:g} days?", yes or not sys.stdin.isatty())
    with acting(dsn) as asking:
        removed = play(asking, operating.cleanup_old_jobs(days, state))
    if as_json:
        print_json({"removed": removed})
    else:
        click.echo(f"{removed} {'job' if removed == 1 else 'jobs'} removed.")
