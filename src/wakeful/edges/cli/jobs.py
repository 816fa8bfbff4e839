"""`wakeful jobs list|show|cancel|retry|bury`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from wakeful.edges.cli.acts import by_option, each, reason_option
from wakeful.edges.cli.filters import filter_options, job_filter, page_options
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.edges.cli.asking import Asking
    from wakeful.values.job import JobReport

ids_argument = click.argument("ids", metavar="ID…", type=click.UUID, nargs=-1, required=True)


@click.group()
def jobs() -> None:
    """Find jobs, and cancel, retry or bury them."""


@jobs.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state; may be repeated.")
@filter_options
@page_options
@dsn_option
@json_option
def list_jobs(
    states: tuple[str, ...], limit: int, after: UUID | None, dsn: str | None, as_json: bool, **chosen: Any
) -> None:
    """List jobs, the newest first.

    STATE is scheduled, ready, running, completed, dead or cancelled, or pending, live or finished.
    """
    from wakeful.edges.cli.asking import reading
    from wakeful.statements import read

    wanted = job_filter(states, **chosen)
    with reading(dsn) as asking:
        found = asking.run(read.jobs(wanted, limit=limit, after=after))
    _print_jobs(found, as_json)
    if len(found) == limit and not as_json:
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


@jobs.command()
@ids_argument
@reason_option
@by_option
@dsn_option
@json_option
def cancel(ids: Sequence[UUID], reason: str | None, actor: str | None, dsn: str | None, as_json: bool) -> int:
    """Cancel jobs: a waiting one at once, a running one by asking its worker to stop it."""
    from wakeful.queue import operating
    from wakeful.queue.script import play

    def act(asking: Asking, id: UUID) -> dict[str, object]:
        return {"answer": play(asking, operating.cancel(id, reason, actor))}

    return each(ids, dsn, as_json, act)


@jobs.command()
@ids_argument
@by_option
@dsn_option
@json_option
def retry(ids: Sequence[UUID], actor: str | None, dsn: str | None, as_json: bool) -> int:
    """Start jobs as soon as can be: what waits is made ready, what is over is put back as a new job."""
    from wakeful.queue import operating
    from wakeful.queue.script import play

    def act(asking: Asking, id: UUID) -> dict[str, object]:
        started = play(asking, operating.retry(id, actor))
        return {"answer": "ready"} if started == id else {"answer": "requeued", "as": started}

    return each(ids, dsn, as_json, act)


@jobs.command()
@ids_argument
@reason_option
@by_option
@dsn_option
@json_option
def bury(ids: Sequence[UUID], reason: str | None, actor: str | None, dsn: str | None, as_json: bool) -> int:
    """Move waiting jobs to the dead letters."""
    from wakeful.statements import operate

    def act(asking: Asking, id: UUID) -> dict[str, object]:
        asking.run(operate.bury(id, reason or "buried by hand", actor))
        return {"answer": "buried"}

    return each(ids, dsn, as_json, act)


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
        spare=("QUEUE", "ERROR"),
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
