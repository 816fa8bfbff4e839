"""`wakeful demo`: the whole thing at work on one screen."""

from __future__ import annotations

import asyncio

import click

from wakeful.edges.cli.worker_options import given_dsn_option


@click.command()
@click.option("--exit", "leave", is_flag=True, help="End after the story; without a terminal it does so anyway.")
@click.option(
    "--seconds", type=click.FloatRange(10, 600), default=18.0, metavar="N", help="How long the story takes (18)."
)
@given_dsn_option
def demo(leave: bool, seconds: float, dsn: str | None) -> int:
    """A shop's jobs, a worker killed on purpose, and every job accounted for at the end.

    It plays on an embedded server in a throwaway directory; with --dsn, in a throwaway database on that server.
    """
    from wakeful.edges.demo.present import present
    from wakeful.edges.demo.show import Abandoned

    try:
        return asyncio.run(present(dsn, seconds, leave=leave))
    except Abandoned:
        raise click.Abort from None
