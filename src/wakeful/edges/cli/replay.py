"""`wakeful replay JOB [APP]`: run a job's handler here, in the foreground, changing no state."""

from __future__ import annotations

import traceback
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import UUID

import click

from wakeful.edges.cli.options import json_option
from wakeful.edges.cli.worker_options import given_dsn_option, log_options

if TYPE_CHECKING:
    from wakeful.edges.replay import Replayed
    from wakeful.values.job import JobReport

FINAL = ("completed", "dead", "cancelled")


@click.command()
@click.argument("id", type=click.UUID)
@click.argument("app", required=False, metavar="[APP]")
@click.option("--pdb", "debug", is_flag=True, help="Where the handler raises, look around with pdb.")
@log_options
@given_dsn_option
@json_option
def replay(id: UUID, app: str | None, debug: bool, as_json: bool, **flags: object) -> int:
    """Run the handler of a job that is over, here and now, with its payload; nothing of the queue is changed.

    What the handler enqueues is only told, ctx.transaction() is rolled back; what it does elsewhere, it does.
    """
    from wakeful.edges.cli.worker import open_app, read_settings, set_up_logs
    from wakeful.edges.replay import replay_here
    from wakeful.statements import read
    from wakeful.values.errors import JobNotFound

    settings = read_settings({"app": app, **flags})
    set_up_logs(settings)
    with closing(open_app(settings, flags)) as opened:
        report = opened.database.run(read.job(id))
        if report is None:
            raise JobNotFound(id)
        refuse_live(report)
        replayed = replay_here(opened, report)
        if replayed.error is not None and not as_json:
            traceback.print_exception(replayed.error)
        show(report, replayed, as_json)
        if debug and replayed.error is not None:
            import pdb

            pdb.post_mortem(replayed.error.__traceback__)
    return int(replayed.error is not None)


def refuse_live(report: JobReport) -> None:
    """A job that waits or runs will do its work by itself; done here too, it would be done twice."""
    from wakeful.values.errors import Refused

    if report.state not in FINAL:
        raise Refused(
            f"Job {report.id} is {report.state}, so its handler runs by itself. "
            "Replay is for jobs that are over; cancel it first, or `wakeful explain` it.",
            job_id=report.id,
            state=report.state,
        )


def show(report: JobReport, replayed: Replayed, as_json: bool) -> None:
    """Tell how it went."""
    from wakeful.edges.cli.showing import print_facts, print_json
    from wakeful.statements.read import decoded
    from wakeful.values.outcome import Done, Failed

    outcome = replayed.outcome
    told: dict[str, object] = {
        "id": report.id,
        "task": report.task,
        "outcome": {"done": "completed"}.get(type(outcome).__name__.lower(), type(outcome).__name__.lower()),
        "seconds": round(replayed.seconds, 6),
        "result": decoded(outcome.result) if isinstance(outcome, Done) else None,
        "error": f"{outcome.error.code}: {outcome.error.message}" if isinstance(outcome, Failed) else None,
        "counters": dict(replayed.counters) or None,
        "would_enqueue": list(replayed.enqueued) or None,
    }
    if as_json:
        print_json(told)
    else:
        print_facts((name.replace("_", " "), value) for name, value in told.items())
