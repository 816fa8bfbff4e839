"""`wakeful bench`: what this server will carry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.edges.bench.measure import Finding


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 60),
    default=2.0,
    metavar="N",
    help="For each measurement that is timed (2).",
)
@click.option("--jobs", type=click.IntRange(100, 1_000_000), default=20_000, metavar="N", help="To drain (20000).")
@dsn_option
@json_option
def bench(seconds: float, jobs: int, dsn: str | None, as_json: bool) -> None:
    """Measure what this server will carry, in a throwaway database on it.

    The database is dropped afterwards. The server is kept busy meanwhile: think twice in production.
    """
    from wakeful.database.address import resolve_dsn
    from wakeful.edges.bench.run import run
    from wakeful.edges.cli.showing import print_facts, print_json

    findings, server = asyncio.run(run(resolve_dsn(dsn), seconds, jobs))
    if as_json:
        print_json({"server": server, **{finding.key: round(finding.value, 3) for finding in findings}})
        return
    print_facts([("PostgreSQL", server), *((finding.text, told(finding)) for finding in findings)])


def told(finding: Finding) -> str:
    """A value as people read it."""
    value = f"{finding.value:,.0f}" if finding.value >= 100 else f"{finding.value:.1f}"
    return f"{value} {finding.unit}"
