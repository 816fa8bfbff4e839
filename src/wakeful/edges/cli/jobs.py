"""`wakeful jobs list|show|cancel|retry|bury`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from wakeful.edges.cli.filters import filter_options, job_filter, page_options, state_option
from wakeful.edges.cli.health import span
from wakeful.edges.cli.job_acts import bury, cancel, retry
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.values.job import JobReport


@click.group()
def jobs() -> None:
    """Find jobs, and cancel, retry or bury them."""


for command in (cancel, retry, bury):
    jobs.add_command(command)


@jobs.command("list")
@state_option
@filter_options
@page_options
@click.option(
    "--patience",
    type=span,
    default="400ms",
    show_default=True,
    metavar="SPAN",
    help="Search a long history no longer than this.",
)
@dsn_option
@json_option
def list_jobs(
    states: tuple[str, ...],
    limit: int,
    after: UUID | None,
    patience: timedelta,
    dsn: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """List jobs, the newest first.

    STATE is scheduled, ready, running, completed, dead or cancelled, or pending, live or finished. Where a filter
    means few jobs of a long history, you are told how far the search has come, and how to go on.
    """
    from wakeful.edges.cli.asking import reading
    from wakeful.statements import read

    wanted = job_filter(states, **chosen)
    with reading(dsn, patience) as asking:
        search = asking.run(read.search(wanted, limit=limit, after=after, patience=patience))
        found = asking.run(read.these(search.ids)) if search.ids else []
    _print_jobs(found, as_json)
    if search.reached is not None:
        told = f"go on with --after {search.reached}, or search for longer: --patience 30s."
        click.echo(f"Older jobs were not looked at yet: {told}", err=True)
    elif len(found) == limit and not as_json:
        click.echo(f"There may be more: add --after {found[-1].id}.", err=True)


@jobs.command()
@click.argument("id", type=click.UUID)
@dsn_option
@json_option
def show(id: UUID, dsn: str | None, as_json: bool) -> None:
    """Show one job, in whichever state it is, with its attempts."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import print_facts, print_json
    from wakeful.statements import read
    from wakeful.values.errors import JobNotFound

    with reading(dsn) as asking:
        found = asking.run(read.job(id))
    if found is None:
        raise JobNotFound(id)
    if as_json:
        print_json(found)
    else:
        print_facts(_facts(found))


def _print_jobs(found: Sequence[JobReport], as_json: bool) -> None:
    from wakeful.edges.cli.showing import age, print_json, print_table

    if as_json:
        print_json(list(found))
        return
    print_table(
        ("ID", "TASK", "QUEUE", "STATE", "TRY", "AGE", "ERROR"),
        [
            (
                *(job.id, job.task, job.queue, job.state, f"{job.attempt}/{job.max_attempts}"),
                *(age(job.created_at), job.last_error_message or job.last_error_code),
            )
            for job in found
        ],
        spare=("QUEUE", "ERROR", "TRY", "AGE"),
    )


def _facts(job: JobReport) -> list[tuple[str, object]]:
    from dataclasses import asdict

    told = {**asdict(job), "attempt": f"{job.attempt} of {job.max_attempts}", "max_attempts": None}
    told["attempts"] = "\n".join(_attempt(one) for one in job.attempts) or None
    told["metadata"] = job.metadata or None
    return [(name.replace("_", " "), value) for name, value in told.items()]


def _attempt(attempt: Mapping[str, Any]) -> str:
    error = f": {attempt.get('code') or ''} {attempt.get('message') or ''}".rstrip(" :")
    return f"{attempt.get('attempt')}. {attempt.get('started_at')} {attempt.get('outcome')}{error}"
